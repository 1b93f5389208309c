//! Readiness of objects: whether they have reached their desired state.
//!
//! Built-in kinds have the rules of kstatus, which kpt and Flux use. Other kinds are ready when
//! their condition `Ready`, or else `Available`, is true for the current generation.
//!
//! ```
//! use serde_json::json;
//! use windlass_runtime::objects::readiness::{Readiness, readiness};
//!
//! let deployment = json!({
//!     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 2},
//!     "spec": {"replicas": 3}, "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1},
//! });
//! assert_eq!(readiness(&deployment), Readiness::InProgress("1 of 3 replicas are updated".into()));
//! ```

use std::fmt;

use serde_json::Value;

mod kinds;
#[cfg(test)]
mod tests;

/// Whether an object has reached its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// The desired state is reached.
    Ready,
    /// The desired state is not reached yet, for this reason.
    InProgress(String),
    /// It has failed, and nothing suggests that it will succeed without a change.
    Failed(String),
    /// The object is being deleted.
    Terminating,
    /// The object was not applied yet, because of objects that must be ready before.
    Waiting(String),
}

impl Readiness {
    /// Returns whether it is in place.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }

    /// Returns whether it has failed.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// Formats the reason.
impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::InProgress(why) | Self::Failed(why) | Self::Waiting(why) => f.write_str(why),
            Self::Terminating => f.write_str("being deleted"),
        }
    }
}

/// Returns the readiness of an object, with its `apiVersion` and `kind`.
pub fn readiness(object: &Value) -> Readiness {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    of_kind(group, text("kind"), object, false)
}

/// Returns the readiness of an object of this kind. If `reports` is set, objects of the kind get conditions, so that
/// one without any has not been looked at yet.
pub(crate) fn of_kind(group: &str, kind: &str, object: &Value, reports: bool) -> Readiness {
    if object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return Readiness::Terminating;
    }
    if let Some(waiting) = observed(object) {
        return waiting;
    }
    kinds::rule(group, kind).map_or_else(|| by_conditions(object, reports), |rule| rule(object))
}

/// Returns `InProgress` if the status is not that of the current generation.
fn observed(object: &Value) -> Option<Readiness> {
    let generation = object.pointer("/metadata/generation")?.as_i64()?;
    let observed = object.pointer("/status/observedGeneration")?.as_i64()?;
    let text = format!("generation {generation} is not observed yet, only {observed}");
    (observed < generation).then_some(Readiness::InProgress(text))
}

/// The rule for kinds without one of their own.
fn by_conditions(object: &Value, reports: bool) -> Readiness {
    if let Some(stalled) = condition(object, "Stalled").filter(|stalled| stalled.is("True")) {
        return Readiness::Failed(stalled.text());
    }
    if let Some(reconciling) = condition(object, "Reconciling").filter(|reconciling| reconciling.is("True")) {
        return Readiness::InProgress(reconciling.text());
    }
    let Some(ready) = condition(object, "Ready").or_else(|| condition(object, "Available")) else {
        let none = object.pointer("/status/conditions").and_then(Value::as_array).is_none_or(Vec::is_empty);
        return match reports && none {
            true => Readiness::InProgress("no conditions are reported yet".into()),
            false => Readiness::Ready,
        };
    };
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    match (ready.generation(), generation) {
        (Some(observed), Some(generation)) if observed < generation => {
            Readiness::InProgress(format!("generation {generation} is not observed yet, only {observed}"))
        }
        _ if ready.is("True") => Readiness::Ready,
        _ => Readiness::InProgress(ready.text()),
    }
}

/// A condition of a status.
struct Condition<'a>(&'a Value);

impl Condition<'_> {
    fn is(&self, status: &str) -> bool {
        self.0["status"] == status
    }

    fn reason(&self) -> &str {
        self.0["reason"].as_str().unwrap_or_default()
    }

    fn generation(&self) -> Option<i64> {
        self.0["observedGeneration"].as_i64()
    }

    /// Returns the message, or else the reason, or else the type and status.
    fn text(&self) -> String {
        let texts = [self.0["message"].as_str().unwrap_or_default(), self.reason()];
        match texts.into_iter().find(|text| !text.is_empty()) {
            Some(text) => text.to_owned(),
            None => format!(
                "condition {} is {}",
                self.0["type"].as_str().unwrap_or_default(),
                self.0["status"].as_str().unwrap_or("unknown")
            ),
        }
    }
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<Condition<'a>> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_).map(Condition)
}
