//! The final check of an encoded object: managed fields, defaults, webhooks and conversions may have added to a body that
//! was within the limits.

use bytes::Bytes;
use serde_json::Value;
use windlass_builtins::protobuf;
use windlass_json::{MAX_DEPTH, nests_too_deep};
use windlass_store::Revision;

use crate::{
    endpoint::Endpoint,
    meta,
    status::{ApiError, Result, qualified},
    storage::{StoredObject, encode},
};

/// The largest stored object, which is the largest request that etcd accepts.
const SIZE_LIMIT: usize = 3 << 19;

/// Encodes an object in its storage version. Managed fields are omitted if the object is too large with them.
///
/// # Errors
/// Returns an error if the object could not be read again, or is larger than etcd would accept.
pub(super) fn encode_storable(endpoint: &Endpoint, object: &mut Value) -> Result<Bytes> {
    let bytes = encode_readable(endpoint, object)?;
    if !is_too_large(endpoint, object, &bytes) {
        return Ok(bytes);
    }
    meta::metadata_mut(object).remove("managedFields");
    let bytes = encode(object);
    match is_too_large(endpoint, object, &bytes) {
        false => Ok(bytes),
        true => Err(ApiError::unexpected("etcdserver: request is too large")),
    }
}

/// Encodes an object of any size in its storage version, for a deletion: an object of the largest size can be deleted.
///
/// # Errors
/// Returns an error if the object could not be read again.
pub(super) fn encode_readable(endpoint: &Endpoint, object: &mut Value) -> Result<Bytes> {
    let bytes = encode(object);
    let rejected = |why: String| {
        let resource = qualified(&endpoint.resource.plural, &endpoint.resource.group);
        ApiError::bad_request(format!("{resource} \"{}\" cannot be stored: {why}", meta::text(object, "name")))
    };
    if nests_too_deep(&bytes) {
        let why = format!("with its managed fields and defaults, it nests deeper than {MAX_DEPTH} levels");
        return Err(rejected(why));
    }
    // Metadata is validated, except that of a webhook's conversion.
    if endpoint.has_converter() {
        StoredObject::parse(&bytes, Revision(0)).map_err(|damage| rejected(damage.to_string()))?;
    }
    Ok(bytes)
}

/// Returns whether an object is larger than etcd would accept. kube-apiserver stores built-in kinds as protobuf, which is
/// smaller than JSON.
fn is_too_large(endpoint: &Endpoint, object: &Value, bytes: &[u8]) -> bool {
    if bytes.len() <= SIZE_LIMIT {
        return false;
    }
    let custom = endpoint.custom().is_some() || &*endpoint.resource.group == "apiextensions.k8s.io";
    custom || protobuf::encode_object(object, endpoint.table).is_ok_and(|encoded| encoded.len() > SIZE_LIMIT)
}
