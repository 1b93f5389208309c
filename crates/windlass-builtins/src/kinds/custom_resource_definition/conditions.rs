//! Conditions of a CustomResourceDefinition, and how kube-apiserver's controllers set them.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::time::Time;

use crate::object::{items, text};

/// The names are accepted: no other CRD in the group has them.
pub const NAMES_ACCEPTED: &str = "NamesAccepted";
/// The resource is served. Once true, it stays true.
pub const ESTABLISHED: &str = "Established";
/// The CRD is being deleted and its custom resources are being cleaned up.
pub const TERMINATING: &str = "Terminating";
/// A schema is not structural.
pub const NON_STRUCTURAL_SCHEMA: &str = "NonStructuralSchema";
/// Whether a CRD in a protected group is approved.
pub const API_APPROVAL: &str = "KubernetesAPIApprovalPolicyConformant";

/// A condition without its transition time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Type.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
}

impl Condition {
    /// Creates a condition.
    pub fn new(kind: &'static str, status: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status, reason, message: message.into() }
    }

    /// Returns whether a condition of an object is equal, regardless of its transition time.
    pub fn says_the_same_as(&self, other: Option<&Value>) -> bool {
        other.is_some_and(|other| {
            text(other, "/type") == self.kind
                && text(other, "/status") == self.status
                && text(other, "/reason") == self.reason
                && text(other, "/message") == self.message
        })
    }
}

/// Returns the condition of this type.
pub fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind)
}

/// Returns whether a condition is present and true.
pub fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| text(condition, "/status") == "True")
}

/// Sets a condition in a `status`. A new condition is appended; the transition time changes only with the status.
pub fn set(status: &mut Value, condition: &Condition, now: Timestamp) {
    let now = Time::from_unix(now.as_second(), 0).to_rfc3339();
    if !status.is_object() {
        *status = json!({});
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let Some(old) = conditions.iter_mut().find(|old| text(old, "/type") == condition.kind) else {
        conditions.push(json!({
            "type": condition.kind,
            "status": condition.status,
            "lastTransitionTime": now,
            "reason": condition.reason,
            "message": condition.message,
        }));
        return;
    };
    if text(old, "/status") != condition.status || text(old, "/lastTransitionTime").is_empty() {
        old["lastTransitionTime"] = now.into();
    }
    old["status"] = condition.status.into();
    old["reason"] = condition.reason.into();
    old["message"] = condition.message.clone().into();
}

/// Removes a condition from a `status`.
pub fn remove(status: &mut Value, kind: &str) {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|condition| text(condition, "/type") != kind);
    }
}

/// Returns a copy of a CRD's status for modification; an empty object if there is none.
pub(super) fn status_of(object: &Value) -> Value {
    object.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}))
}
