//! The messages of etcd's API that the store uses, with the fields that it uses.

use bytes::Bytes;
use prost::{Message, Oneof};

use crate::translate::Translate;

/// Path of reads.
pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
/// Path of writes.
pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
/// Path of compactions.
pub(crate) const COMPACT: &str = "/etcdserverpb.KV/Compact";
/// Path of watches.
pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Path of the status of a member.
pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// Information about the cluster in a response.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

/// A response with a header.
pub(crate) trait Answer: Message + Default + Translate {
    /// Returns the header, which every response of etcd has.
    fn header(&self) -> Option<&ResponseHeader>;
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub(crate) version: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    /// The end of a range of keys; empty for a single key.
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Operation", tags = "1, 2, 3")]
    pub(crate) operation: Option<Operation>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Operation {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

impl From<Operation> for RequestOp {
    fn from(operation: Operation) -> Self {
        Self { operation: Some(operation) }
    }
}

/// The response of an operation in a transaction; only those of reads matter.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<RangeResponse>,
}

/// Compares a key's revision of the last write (`target` 2), which is 0 if there is no key, for equality (`result` 0).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) key: Bytes,
    /// A member of a union, so that 0 must be encoded too.
    #[prost(int64, optional, tag = "6")]
    pub(crate) mod_revision: Option<i64>,
    /// The end of a range of keys, all of which are compared; empty for a single key.
    #[prost(bytes = "bytes", tag = "64")]
    pub(crate) range_end: Bytes,
}

impl Compare {
    /// The value of `target` for `mod_revision`.
    pub(crate) const MOD_REVISION: i32 = 2;

    /// Compares the revision of the last write of a key.
    pub(crate) fn written(key: Bytes, revision: i64) -> Self {
        Self { target: Self::MOD_REVISION, key, mod_revision: Some(revision), ..Self::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(int64, tag = "3")]
    pub(crate) db_size: i64,
    /// Alarms, and that there is no leader.
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(crate) db_size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub(crate) is_learner: bool,
    /// Since etcd 3.6.
    #[prost(int64, tag = "12")]
    pub(crate) db_size_quota: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "WatchCommand", tags = "1, 3")]
    pub(crate) command: Option<WatchCommand>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WatchCommand {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    #[prost(bool, tag = "4")]
    pub(crate) progress_notify: bool,
    /// Responses above 2 MiB are sent in several parts.
    #[prost(bool, tag = "8")]
    pub(crate) fragment: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchProgressRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    /// Whether further parts of this response follow.
    #[prost(bool, tag = "7")]
    pub(crate) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<WatchEvent>,
}

/// A write (`kind` 0) or a deletion (`kind` 1), of which only key and revision are set.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchEvent {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

impl WatchEvent {
    /// The value of `kind` for deletions.
    pub(crate) const DELETE: i32 = 1;
}

macro_rules! answers {
    ($($name:ident),*) => {
        $(impl Answer for $name {
            fn header(&self) -> Option<&ResponseHeader> {
                self.header.as_ref()
            }
        })*
    };
}

answers!(RangeResponse, TxnResponse, CompactionResponse, StatusResponse, WatchResponse);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compared_revision_of_zero_is_encoded() {
        let compare = Compare::written(Bytes::from_static(b"k"), 0);
        assert_eq!(compare.encode_to_vec(), [0x10, 2, 0x1a, 1, b'k', 0x30, 0]);
    }

    #[test]
    fn a_request_for_progress_is_encoded_although_it_is_empty() {
        let request = WatchRequest { command: Some(WatchCommand::Progress(WatchProgressRequest {})) };
        assert_eq!(request.encode_to_vec(), [0x1a, 0]);
    }

    #[test]
    fn unknown_fields_of_answers_are_skipped() {
        // Header with a member and a term, watch id, `created`, an unknown field.
        let bytes = [0x0a, 8, 0x08, 7, 0x10, 1, 0x18, 9, 0x20, 2, 0x10, 5, 0x18, 1, 0xf8, 0x07, 1];
        let answer = WatchResponse::decode(&bytes[..]).unwrap();
        assert_eq!(answer.header, Some(ResponseHeader { cluster_id: 7, revision: 9 }));
        assert!(answer.created && !answer.canceled && answer.events.is_empty());
    }
}
