//! Writes: compare-and-swap transactions, and the outcome of those without a response.

use bytes::Bytes;
use prost::Message as _;
use windlass_store::{Error, Revision};

use crate::{
    client::{Client, revision, signed, unsigned},
    messages::{
        Compare, DeleteRangeRequest, KeyValue, Operation, PutRequest, RangeRequest, RequestOp, TXN, TxnRequest,
        TxnResponse,
    },
    status::{CallError, Status},
};

/// The largest request that etcd's clients send; what etcd itself accepts is less by default.
const LARGEST_REQUEST: usize = 2 << 20;

/// A write of a key.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    /// The key must not exist.
    Create(Bytes),
    /// The last write of the key must have this revision.
    Update(Revision, Bytes),
    /// The last write of the key must have this revision.
    Delete(Revision),
}

/// Outcome of a write, judged by the state of its key.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It was carried out, at this revision.
    Done(Revision),
    /// It was not carried out, and never will be: the key is in the state that makes it fail.
    Failed,
    /// It was not carried out, or not yet.
    Open,
    /// It may have been carried out, and overwritten since.
    Unclear,
}

impl Write {
    fn expected(&self) -> Revision {
        match self {
            Self::Create(_) => Revision(0),
            Self::Update(expected, _) | Self::Delete(expected) => *expected,
        }
    }

    fn value(&self) -> Option<&Bytes> {
        match self {
            Self::Create(value) | Self::Update(_, value) => Some(value),
            Self::Delete(_) => None,
        }
    }

    /// The transaction, in the form that kube-apiserver uses.
    fn transaction(&self, key: &Bytes) -> TxnRequest {
        let compare = Compare::written(key.clone(), signed(self.expected()));
        let write = match self.value() {
            Some(value) => Operation::Put(PutRequest { key: key.clone(), value: value.clone() }),
            None => Operation::Delete(DeleteRangeRequest { key: key.clone(), ..DeleteRangeRequest::default() }),
        };
        let otherwise = match self {
            Self::Create(_) => Vec::new(),
            _ => vec![RequestOp::from(Operation::Range(RangeRequest { key: key.clone(), ..RangeRequest::default() }))],
        };
        TxnRequest { compare: vec![compare], success: vec![write.into()], failure: otherwise }
    }

    /// The error of a write that was rejected because of the state of the key.
    fn rejected(&self, key: &str, current: Option<&KeyValue>) -> Error {
        let key = key.to_owned();
        match (self, current) {
            (Self::Create(_), _) => Error::Exists { key },
            (_, None) => Error::NotFound { key },
            (_, Some(current)) => {
                Error::Conflict { key, expected: self.expected(), actual: Revision(unsigned(current.mod_revision)) }
            }
        }
    }

    /// Decides by the newest state of a key whether a write without a response was carried out. `before` is a revision
    /// before it was sent.
    ///
    /// An equal value counts as this client's: another client that has written it wanted the same.
    fn judge(&self, current: Option<&KeyValue>, before: Revision) -> Outcome {
        let Some(current) = current else {
            return match self {
                Self::Create(_) => Outcome::Open,
                _ => Outcome::Unclear,
            };
        };
        let (created, written) =
            (Revision(unsigned(current.create_revision)), Revision(unsigned(current.mod_revision)));
        match self {
            Self::Create(_) if created <= before => Outcome::Failed,
            Self::Update(expected, _) | Self::Delete(expected) if written == *expected => Outcome::Open,
            // A key that a deletion has left alone, and someone else has changed.
            Self::Delete(expected) if created <= *expected => Outcome::Failed,
            Self::Create(value) if created == written && current.value == *value => Outcome::Done(written),
            Self::Update(expected, value) if created <= *expected && current.value == *value => Outcome::Done(written),
            _ => Outcome::Unclear,
        }
    }
}

impl Client {
    /// Carries out a write, and returns its revision.
    pub(crate) async fn carry_out(&self, key: &str, write: Write) -> Result<Revision, Error> {
        let etcd_key = self.prefix.key(key)?;
        let transaction = write.transaction(&etcd_key);
        let size = transaction.encoded_len();
        if size > LARGEST_REQUEST {
            let cause = format!(
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {LARGEST_REQUEST})"
            );
            return Err(Error::TooLarge { cause });
        }
        let before = self.newest();
        let answer: Result<TxnResponse, _> = self.write(TXN, &transaction).await;
        match answer {
            Ok(answer) if answer.succeeded => Ok(revision(answer.header.as_ref())),
            Ok(answer) => {
                let found = answer.responses.first().and_then(|response| response.range.as_ref());
                Err(write.rejected(key, found.and_then(|found| found.kvs.first())))
            }
            Err(CallError::NotSent(cause)) => Err(Error::Unavailable { cause }),
            Err(CallError::Lost(cause)) => self.resolve(key, etcd_key, &write, before, Error::Unknown { cause }).await,
            Err(CallError::Status(status)) => self.failed(key, etcd_key, &write, before, status).await,
        }
    }

    /// Returns the result of a write that etcd has responded with an error.
    async fn failed(
        &self,
        key: &str,
        etcd_key: Bytes,
        write: &Write,
        before: Revision,
        status: Status,
    ) -> Result<Revision, Error> {
        let cause = status.message.clone();
        let unresolved = match () {
            () if status.is_too_large() => return Err(Error::TooLarge { cause }),
            () if status.is_rejection() => return Err(Error::Storage { cause }),
            () if status.is_overload() => return Err(Error::Unavailable { cause }),
            // etcd also returns this for the write that used up the space.
            () if status.is_no_space() => Error::NoSpace,
            () => Error::Unknown { cause },
        };
        self.resolve(key, etcd_key, write, before, unresolved).await
    }

    /// Determines the outcome of a write. `unresolved` is the error if that is not known.
    async fn resolve(
        &self,
        key: &str,
        etcd_key: Bytes,
        write: &Write,
        before: Revision,
        unresolved: Error,
    ) -> Result<Revision, Error> {
        let Ok(answer) = self.range(etcd_key, 0).await else { return Err(unresolved) };
        let current = answer.kvs.first();
        match write.judge(current, before) {
            Outcome::Done(revision) => Ok(revision),
            Outcome::Failed => Err(write.rejected(key, current)),
            Outcome::Open | Outcome::Unclear => Err(unresolved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(created: i64, written: i64, value: &'static str) -> KeyValue {
        KeyValue { create_revision: created, mod_revision: written, value: value.into(), ..KeyValue::default() }
    }

    #[test]
    fn a_write_without_an_answer_is_judged_by_the_state_of_its_key() {
        let (create, update, delete) =
            (Write::Create("x".into()), Write::Update(Revision(5), "x".into()), Write::Delete(Revision(5)));
        let before = Revision(9);
        for (write, state, expected) in [
            (&create, None, Outcome::Open),
            (&create, Some(state(10, 10, "x")), Outcome::Done(Revision(10))),
            (&create, Some(state(9, 10, "x")), Outcome::Failed),
            (&create, Some(state(10, 10, "y")), Outcome::Unclear),
            (&create, Some(state(10, 12, "x")), Outcome::Unclear),
            (&update, None, Outcome::Unclear),
            (&update, Some(state(2, 5, "w")), Outcome::Open),
            // The state before the write, which has the same value.
            (&update, Some(state(2, 5, "x")), Outcome::Open),
            (&update, Some(state(2, 11, "x")), Outcome::Done(Revision(11))),
            (&update, Some(state(2, 11, "y")), Outcome::Unclear),
            // Deleted and created again, by others.
            (&update, Some(state(11, 11, "x")), Outcome::Unclear),
            (&delete, None, Outcome::Unclear),
            (&delete, Some(state(2, 5, "w")), Outcome::Open),
            (&delete, Some(state(2, 11, "w")), Outcome::Failed),
            (&delete, Some(state(11, 11, "w")), Outcome::Unclear),
        ] {
            assert_eq!(write.judge(state.as_ref(), before), expected, "{write:?} {state:?}");
        }
    }

    #[test]
    fn transactions_have_the_form_that_kube_apiserver_uses() {
        let key = Bytes::from_static(b"/windlass/a");
        let create = Write::Create("x".into()).transaction(&key);
        assert_eq!((create.compare[0].mod_revision, create.success.len(), create.failure.len()), (Some(0), 1, 0));
        let delete = Write::Delete(Revision(7)).transaction(&key);
        assert_eq!(delete.compare[0].mod_revision, Some(7));
        assert!(matches!(delete.success[0].operation, Some(Operation::Delete(_))));
        assert!(matches!(&delete.failure[0].operation, Some(Operation::Range(range)) if range.key == key));
    }
}
