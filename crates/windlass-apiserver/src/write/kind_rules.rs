//! Rules of single kinds that need more than a strategy has: the user, the time of day, or the state of the server.
//!
//! All other rules of a kind belong to its strategy in `windlass-builtins`.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_builtins::kinds::{namespace, persistent_volume};

use crate::{endpoint::Endpoint, meta, user::User};

/// CertificateSigningRequests: writes the requester into the spec.
pub(super) fn set_csr_requester(endpoint: &Endpoint, user: &User, object: &mut Value) {
    if !endpoint.is("certificates.k8s.io", "certificatesigningrequests") {
        return;
    }
    let spec = &mut object["spec"];
    spec["username"] = user.name.as_str().into();
    spec["groups"] = user.groups.clone().into();
    if !user.uid.is_empty() {
        spec["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
}

/// Nodes: a kubelet reports the status when it registers its node.
pub(super) fn keeps_status_on_create(endpoint: &Endpoint) -> bool {
    endpoint.is("", "nodes")
}

/// PersistentVolumes: notes the time at which the phase changed.
pub(super) fn note_phase_change(
    endpoint: &Endpoint,
    subresource: &str,
    object: &mut Value,
    old: &Value,
    now: Timestamp,
) {
    if subresource == "status" && endpoint.is("", "persistentvolumes") {
        persistent_volume::note_phase_change(object, old, &meta::format_time(now));
    }
}

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

/// Events: nothing depends on them, so deletions ignore the propagation policy.
pub(crate) fn ignores_propagation_policy(endpoint: &Endpoint) -> bool {
    endpoint.is("", "events") || endpoint.is("events.k8s.io", "events")
}
