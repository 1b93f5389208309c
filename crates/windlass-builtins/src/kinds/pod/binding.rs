//! Binding of a pod to a node, by which it is scheduled.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::prepare::update_condition;
use crate::field_errors::FieldErrors;
use crate::object::{entries, is_set, items, remove, set, text};

/// Validates a binding except for its metadata.
pub fn validate(binding: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("target");
    let kind = text(binding, "/target/kind");
    if !matches!(kind, "" | "Node") {
        errors.not_supported(&path.child("kind"), kind, &["Node", "<empty>"]);
    }
    errors.nonempty(&path.child("name"), text(binding, "/target/name"));
    errors
}

/// Binds a pod to the target node of a binding: sets the node and the `PodScheduled` condition, and copies the
/// binding's annotations and labels. The generation does not change.
///
/// # Errors
/// Returns why the pod cannot be bound; the server reports a conflict for `pods/binding`.
pub fn bind(pod: &mut Value, binding: &Value, now: Timestamp) -> Result<(), String> {
    let name = text(pod, "/metadata/name");
    if is_set(pod, "/metadata/deletionTimestamp") {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text(pod, "/spec/nodeName");
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node \"{node}\""));
    }
    if !items(pod, "/spec/schedulingGates").is_empty() {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    set(pod, "/spec/nodeName", text(binding, "/target/name"));
    remove(pod, "/status/nominatedNodeName");
    for field in ["annotations", "labels"] {
        let pointer = format!("/metadata/{field}");
        let mut all = pod.pointer(&pointer).and_then(Value::as_object).cloned().unwrap_or_default();
        all.extend(entries(binding, &pointer).map(|(key, value)| (key.to_owned(), value.clone())));
        if !all.is_empty() {
            set(pod, &pointer, all);
        }
    }
    update_condition(pod, "PodScheduled", "True", None, now);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn binding() -> Value {
        json!({"metadata": {"name": "p", "labels": {"zone": "a"}}, "target": {"kind": "Node", "name": "n1"}})
    }

    #[test]
    fn binding_schedules_a_pod_once() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().expect("a time");
        let mut pod = json!({
            "metadata": {"name": "p", "generation": 1}, "spec": {}, "status": {"phase": "Pending", "nominatedNodeName": "x"},
        });
        assert_eq!(bind(&mut pod, &binding(), now), Ok(()));
        assert_eq!(
            pod,
            json!({
                "metadata": {"name": "p", "generation": 1, "labels": {"zone": "a"}},
                "spec": {"nodeName": "n1"},
                "status": {"phase": "Pending", "conditions": [{
                    "type": "PodScheduled", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }]},
            })
        );
        let again = bind(&mut pod, &binding(), now);
        assert_eq!(again, Err("pod p is already assigned to node \"n1\"".to_owned()));
    }

    #[test]
    fn gated_and_terminating_pods_are_not_bound() {
        for (pod, expected) in [
            (
                json!({"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "g"}]}}),
                "pod p has non-empty .spec.schedulingGates",
            ),
            (
                json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}),
                "pod p is being deleted, cannot be assigned to a host",
            ),
        ] {
            let mut bound = pod.clone();
            assert_eq!(bind(&mut bound, &binding(), Timestamp::UNIX_EPOCH), Err(expected.to_owned()));
            assert_eq!(bound, pod, "a pod that is not bound is not changed");
        }
    }

    #[test]
    fn a_binding_names_a_node() {
        let errors: Vec<_> = validate(&json!({"target": {"kind": "Pod"}})).iter().map(ToString::to_string).collect();
        let expected = [
            "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"",
            "target.name: Required value",
        ];
        assert_eq!(errors, expected);
        assert!(validate(&binding()).is_empty());
    }
}
