//! `RuntimeClass`: a pod has the overhead of its runtime, and runs on nodes with the runtime.

use serde_json::{Map, Value};

use super::tolerations;
use crate::object::{copy, entries, is_set, items, map, set};
use crate::resource_list::list;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Returns the name of the RuntimeClass of a pod, if it names one.
pub fn runtime_class_name(pod: &Value) -> Option<&str> {
    pod.pointer("/spec/runtimeClassName").and_then(Value::as_str)
}

/// Copies overhead, node selector and tolerations of a RuntimeClass to a new pod.
///
/// # Errors
/// Returns why the pod is forbidden: it contradicts its class.
pub fn use_runtime_class(pod: &mut Value, class: &Value) -> Result<(), String> {
    if is_set(class, "/overhead") {
        let overhead = list(class, "/overhead/podFixed");
        if map(pod, "/spec/overhead").is_some_and(|have| !have.is_empty()) && list(pod, "/spec/overhead") != overhead {
            return Err(MISMATCH.to_owned());
        }
        if is_set(class, "/overhead/podFixed") {
            set(pod, "/spec/overhead", copy(class, "/overhead/podFixed"));
        }
    }
    if !is_set(class, "/scheduling") {
        return Ok(());
    }
    let mut selector = map(pod, "/spec/nodeSelector").cloned().unwrap_or_else(Map::new);
    for (key, value) in entries(class, "/scheduling/nodeSelector") {
        if let Some(own) = selector.get(key).filter(|own| *own != value) {
            let (own, value) = (own.as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            ));
        }
        selector.insert(key.to_owned(), value.clone());
    }
    if !selector.is_empty() {
        set(pod, "/spec/nodeSelector", selector);
    }
    let tolerations = tolerations::merge(items(pod, "/spec/tolerations"), items(class, "/scheduling/tolerations"));
    if !tolerations.is_empty() {
        set(pod, "/spec/tolerations", tolerations);
    }
    Ok(())
}

/// Compares the overhead of a pod with that of its RuntimeClass.
///
/// # Errors
/// Returns why the pod is forbidden.
pub fn check_overhead(pod: &Value, class: Option<&Value>) -> Result<(), &'static str> {
    match class.filter(|class| is_set(class, "/overhead")) {
        Some(class) if list(pod, "/spec/overhead") != list(class, "/overhead/podFixed") => Err(MISMATCH),
        None if is_set(pod, "/spec/overhead") => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_gets_what_its_class_states() {
        let class = json!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"runtime": "kata"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
        });
        let mut pod = json!({"spec": {"nodeSelector": {"a": "b"}, "overhead": {"cpu": "0.25"}, "tolerations": [
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
        ]}});
        assert_eq!(use_runtime_class(&mut pod, &class), Ok(()));
        let expected = json!({
            "nodeSelector": {"a": "b", "runtime": "kata"}, "overhead": {"cpu": "250m"},
            "tolerations": [{"key": "k", "operator": "Exists"}],
        });
        assert_eq!(pod["spec"], expected);
        assert_eq!(check_overhead(&pod, Some(&class)), Ok(()));
        let once = pod.clone();
        assert_eq!(use_runtime_class(&mut pod, &class), Ok(()));
        assert_eq!(pod, once, "a second pass changes nothing");
    }

    #[test]
    fn a_pod_that_contradicts_its_class_is_rejected() {
        let class = json!({"overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"nodeSelector": {"a": "x"}}});
        let mut pod = json!({"spec": {"overhead": {"cpu": "2"}}});
        assert_eq!(use_runtime_class(&mut pod, &class), Err(MISMATCH.to_owned()));
        assert_eq!(check_overhead(&json!({"spec": {}}), Some(&class)), Err(MISMATCH));
        let mut pod = json!({"spec": {"nodeSelector": {"a": "y"}}});
        let conflict = "conflict: runtimeClass.scheduling.nodeSelector[a] = x; pod.spec.nodeSelector[a] = y";
        assert_eq!(use_runtime_class(&mut pod, &class), Err(conflict.to_owned()));
        let without = Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
        for class in [None, Some(&json!({"handler": "runc"}))] {
            assert_eq!(check_overhead(&json!({"spec": {"overhead": {"cpu": "1"}}}), class), without);
            assert_eq!(check_overhead(&json!({"spec": {}}), class), Ok(()));
        }
    }
}
