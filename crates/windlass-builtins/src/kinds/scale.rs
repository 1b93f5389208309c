//! The scale subresource of workloads.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_schema::field::{ErrorList, Path};

use super::pod_template;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::object::{carry_over, integer, set, text};

/// The columns of a scale.
pub const PRINTER: Printer = Printer::new(COLUMNS, cells);

const COLUMNS: &[Column] = &[
    Column { format: "", ..NAME },
    column("Desired", "integer", "replicas is the desired number of instances for the scaled object."),
    column("Available", "integer", "replicas is the actual number of observed instances of the scaled object."),
    AGE,
];

fn cells(scale: &Value, now: Timestamp) -> Vec<Value> {
    let replicas = |part| integer(scale, part).unwrap_or_default().into();
    vec![name(scale), replicas("/spec/replicas"), replicas("/status/replicas"), age(scale, now)]
}

/// Returns the scale of a workload, in `autoscaling/v1`.
pub fn to_scale(workload: &Value) -> Value {
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}, "spec": {}, "status": {}});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        carry_over(&mut scale, workload, &format!("/metadata/{field}"));
    }
    if let Some(replicas) = integer(workload, "/spec/replicas").filter(|replicas| *replicas != 0) {
        set(&mut scale, "/spec/replicas", replicas);
    }
    let mut status = Map::new();
    status.insert("replicas".to_owned(), integer(workload, "/status/replicas").unwrap_or_default().into());
    let selector = pod_template::selector_text(workload);
    if !selector.is_empty() {
        status.insert("selector".to_owned(), selector.into());
    }
    set(&mut scale, "/status", status);
    scale
}

/// Validates a scale except for its metadata.
pub fn validate(scale: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    errors.nonnegative(&Path::new("spec").child("replicas"), integer(scale, "/spec/replicas"));
    errors
}

/// Returns the message for a scale whose UID differs from the workload's; `None` if it has none or the same. The
/// conflict concerns the resource's `scale` subresource.
pub fn uid_conflict(workload: &Value, scale: &Value) -> Option<String> {
    let (wanted, have) = (text(scale, "/metadata/uid"), text(workload, "/metadata/uid"));
    (!wanted.is_empty() && wanted != have)
        .then(|| format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {have}"))
}

/// Scales a workload. The resource version becomes that of the scale, so that a stale one causes a conflict; a scale
/// without a resource version is applied unconditionally.
pub fn apply_scale(workload: &mut Value, scale: &Value) {
    set(workload, "/spec/replicas", integer(scale, "/spec/replicas").unwrap_or_default());
    carry_over(workload, scale, "/metadata/resourceVersion");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_replicas_and_selector_of_its_workload() {
        let mut workload = json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"b": "2", "app": "web"}}},
            "status": {"replicas": 1},
        });
        let scale = to_scale(&workload);
        assert_eq!(
            scale,
            json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "7"},
                "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "app=web,b=2"},
            })
        );
        let mut down = scale.clone();
        set(&mut down, "/spec", json!({}));
        apply_scale(&mut workload, &down);
        assert_eq!(integer(&workload, "/spec/replicas"), Some(0));
        assert_eq!(to_scale(&workload)["spec"], json!({}), "no replicas are left out");
        assert_eq!(uid_conflict(&workload, &down), None);
        set(&mut down, "/metadata/uid", "v");
        let expected = "Precondition failed: UID in precondition: v, UID in object meta: u";
        assert_eq!(uid_conflict(&workload, &down).as_deref(), Some(expected));
    }

    #[test]
    fn a_negative_scale_is_rejected() {
        let errors = validate(&json!({"spec": {"replicas": -2}}));
        assert_eq!(errors[0].to_string(), "spec.replicas: Invalid value: -2: must be greater than or equal to 0");
        assert!(validate(&json!({"spec": {}})).is_empty());
    }
}
