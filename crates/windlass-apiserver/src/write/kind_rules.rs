//! Rules of single kinds that need more than a strategy has: the state of the server.
//!
//! All other rules of a kind belong to its strategy and its facts in `windlass-builtins`.

use serde_json::Value;
use windlass_builtins::kinds::namespace;

use crate::{endpoint::Endpoint, meta};

/// Whether an update completes the deletion of an object, by removing its last finalizer. Namespaces have finalizers in
/// their spec as well.
pub(super) fn completes_deletion(endpoint: &Endpoint, object: &Value, old: &Value) -> bool {
    let is_namespace = endpoint.is("", "namespaces");
    meta::is_terminating(object)
        && meta::finalizers(object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (!meta::finalizers(old).is_empty() || is_namespace)
        && (!is_namespace || namespace::may_be_removed(object))
}
