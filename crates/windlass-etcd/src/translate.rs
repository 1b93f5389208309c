//! Revisions in messages, translated between those of the store and those of etcd.

use std::borrow::Cow;

use prost::Message;

use crate::{
    base::Base,
    messages::{
        Answer, CompactionRequest, CompactionResponse, KeyValue, Operation, RangeRequest, RangeResponse,
        ResponseHeader, StatusResponse, TxnRequest, TxnResponse, WatchCreateRequest, WatchResponse,
    },
};

/// A request with revisions of the store.
pub(crate) trait Request: Message + Clone {
    /// Translates them to those of etcd.
    fn translate_back(&mut self, base: &Base);
}

/// Returns a request as etcd understands it.
pub(crate) fn request<'a, R: Request>(request: &'a R, base: &Base) -> Cow<'a, R> {
    if *base == Base::default() {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    request.translate_back(base);
    Cow::Owned(request)
}

/// Returns a response with revisions of the store.
pub(crate) fn answer<A: Answer>(mut answer: A, base: &Base) -> A {
    if *base != Base::default() {
        answer.translate(base);
    }
    answer
}

impl Request for RangeRequest {
    fn translate_back(&mut self, base: &Base) {
        // 0 is the newest revision.
        if self.revision != 0 {
            self.revision = base.of_etcd(self.revision);
        }
    }
}

impl Request for TxnRequest {
    fn translate_back(&mut self, base: &Base) {
        for compare in &mut self.compare {
            // 0 is that of a key that does not exist.
            if let Some(revision) = compare.mod_revision.as_mut().filter(|revision| **revision != 0) {
                *revision = base.of_etcd(*revision);
            }
        }
        for operation in self.success.iter_mut().chain(&mut self.failure) {
            if let Some(Operation::Range(range)) = &mut operation.operation {
                range.translate_back(base);
            }
        }
    }
}

impl Request for CompactionRequest {
    fn translate_back(&mut self, base: &Base) {
        self.revision = base.of_etcd(self.revision);
    }
}

impl Request for WatchCreateRequest {
    fn translate_back(&mut self, base: &Base) {
        // Anything below 1 is the newest revision.
        self.start_revision = base.of_etcd(self.start_revision).max(1);
    }
}

/// A response with revisions of etcd.
pub(crate) trait Translate {
    /// Translates them to those of the store.
    fn translate(&mut self, base: &Base);
}

impl Translate for ResponseHeader {
    fn translate(&mut self, base: &Base) {
        self.revision = base.of_store(self.revision);
    }
}

impl Translate for KeyValue {
    fn translate(&mut self, base: &Base) {
        self.mod_revision = base.of_store(self.mod_revision);
        self.create_revision = base.of_store(self.create_revision);
    }
}

impl<T: Translate> Translate for Option<T> {
    fn translate(&mut self, base: &Base) {
        if let Some(present) = self {
            present.translate(base);
        }
    }
}

impl Translate for RangeResponse {
    fn translate(&mut self, base: &Base) {
        self.header.translate(base);
        self.kvs.iter_mut().for_each(|kv| kv.translate(base));
    }
}

impl Translate for TxnResponse {
    fn translate(&mut self, base: &Base) {
        self.header.translate(base);
        self.responses.iter_mut().for_each(|response| response.range.translate(base));
    }
}

impl Translate for CompactionResponse {
    fn translate(&mut self, base: &Base) {
        self.header.translate(base);
    }
}

impl Translate for StatusResponse {
    fn translate(&mut self, base: &Base) {
        self.header.translate(base);
    }
}

impl Translate for WatchResponse {
    fn translate(&mut self, base: &Base) {
        self.header.translate(base);
        // 0 unless the watch was too old.
        if self.compact_revision != 0 {
            self.compact_revision = base.of_store(self.compact_revision);
        }
        self.events.iter_mut().for_each(|event| event.kv.translate(base));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Compare, RequestOp, WatchEvent};

    const BASE: fn() -> Base = || Base::new(100, 1);

    fn sent<R: Request>(original: &R) -> R {
        request(original, &BASE()).into_owned()
    }

    #[test]
    fn requests_have_the_revisions_of_etcd_and_keep_the_special_ones() {
        let range = |revision| RangeRequest { revision, ..RangeRequest::default() };
        assert_eq!(sent(&range(105)), range(5));
        assert_eq!(sent(&range(0)), range(0));
        let start = |start_revision| WatchCreateRequest { start_revision, ..WatchCreateRequest::default() };
        assert_eq!((sent(&start(105)), sent(&start(1))), (start(5), start(1)));
        let transaction = |compared, read| TxnRequest {
            compare: vec![Compare { mod_revision: Some(compared), ..Compare::default() }],
            success: Vec::new(),
            failure: vec![RequestOp::from(Operation::Range(range(read)))],
        };
        assert_eq!(sent(&transaction(105, 104)), transaction(5, 4));
        assert_eq!(sent(&transaction(0, 0)), transaction(0, 0));
        // The revision of an object that etcd never had: it must not become that of a key that does not exist.
        assert_eq!(sent(&transaction(100, 0)), transaction(-1, 0));
    }

    #[test]
    fn answers_have_the_revisions_of_the_store() {
        let header = |revision| Some(ResponseHeader { cluster_id: 1, revision });
        let kv = |by: i64| KeyValue { create_revision: 3 + by, mod_revision: 4 + by, ..KeyValue::default() };
        let range = |by| RangeResponse { header: header(9 + by), kvs: vec![kv(by)], ..RangeResponse::default() };
        assert_eq!(answer(range(0), &BASE()), range(100));
        assert_eq!(answer(range(0), &Base::default()), range(0));
        let watch = |by, compact_revision| {
            let events = vec![WatchEvent { kind: 0, kv: Some(kv(by)) }];
            WatchResponse { header: header(9 + by), compact_revision, events, ..WatchResponse::default() }
        };
        assert_eq!(answer(watch(0, 0), &BASE()), watch(100, 0));
        assert_eq!(answer(watch(0, 2), &BASE()), watch(100, 102));
    }
}
