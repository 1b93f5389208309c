//! Checks that a prefix does not belong to a kube-apiserver.

use crate::{
    EtcdError,
    client::Client,
    messages::{RANGE, RangeRequest, RangeResponse},
};

/// Prefixes that every kube-apiserver uses, and this project never does: its keys begin with the group.
const THEIRS: &[&str] = &["/namespaces/", "/ranges/", "/masterleases/", "/services/specs/"];
/// Prefixes of values that kube-apiserver has encoded as protobuf or encrypted.
const ENCODINGS: [&[u8]; 2] = [b"k8s\0", b"k8s:enc:"];
/// Number of values that are checked.
const SAMPLE: i64 = 20;

/// Returns an error if there are keys or values of kube-apiserver under the prefix.
pub(crate) async fn check(client: &Client) -> Result<(), EtcdError> {
    let found = |key: &[u8]| EtcdError::Kubernetes {
        prefix: client.prefix.as_str().to_owned(),
        key: String::from_utf8_lossy(key).into_owned(),
    };
    for theirs in THEIRS {
        if let Some(first) = entries(client, theirs, 1).await?.kvs.first() {
            return Err(found(&first.key));
        }
    }
    for kv in entries(client, "/", SAMPLE).await?.kvs {
        if ENCODINGS.iter().any(|encoding| kv.value.starts_with(encoding)) {
            return Err(found(&kv.key));
        }
    }
    Ok(())
}

async fn entries(client: &Client, prefix: &str, limit: i64) -> Result<RangeResponse, EtcdError> {
    let refused = |error: windlass_store::Error| EtcdError::Refused { cause: error.to_string() };
    let (key, range_end) = client.prefix.range(prefix, None).map_err(refused)?;
    let request = RangeRequest { key, range_end, limit, ..RangeRequest::default() };
    client.read(RANGE, &request).await.map_err(EtcdError::of_read)
}
