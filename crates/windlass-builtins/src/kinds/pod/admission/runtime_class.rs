//! `RuntimeClass`: a pod has the overhead of its runtime, and runs on nodes with the runtime.

use serde_json::{Map, Value};

use crate::object::{copy, entries, integer, is_set, items, map, set, text};
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
    let tolerations = merge_tolerations(items(pod, "/spec/tolerations"), items(class, "/scheduling/tolerations"));
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

/// Returns the tolerations of both lists, except for tolerations that another one includes.
fn merge_tolerations(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<&Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let is_included = merged.iter().any(|wide| includes(wide, toleration))
            || all[index + 1..].iter().any(|wide| !same(wide, toleration) && includes(wide, toleration));
        if !is_included {
            merged.push(toleration);
        }
    }
    merged.into_iter().cloned().collect()
}

fn same(one: &Value, other: &Value) -> bool {
    ["/key", "/operator", "/value", "/effect"].iter().all(|field| text(one, field) == text(other, field))
        && integer(one, "/tolerationSeconds") == integer(other, "/tolerationSeconds")
}

/// Returns whether a toleration tolerates everything that another one does.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if same(wide, narrow) {
        return true;
    }
    let (key, operator, effect) = (text(wide, "/key"), text(wide, "/operator"), text(wide, "/effect"));
    let matches_key = key == text(narrow, "/key") || (key.is_empty() && operator == "Exists");
    let matches_effect = effect.is_empty() || effect == text(narrow, "/effect");
    let limit = integer(wide, "/tolerationSeconds").filter(|_| effect == "NoExecute");
    let lasts = limit.is_none_or(|limit| integer(narrow, "/tolerationSeconds").is_some_and(|seconds| seconds <= limit));
    let matches_value = match operator {
        "Equal" | "" => text(narrow, "/operator") == "Equal" && text(narrow, "/value") == text(wide, "/value"),
        operator => operator == "Exists",
    };
    matches_key && matches_effect && lasts && matches_value
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

    #[test]
    fn tolerations_that_another_includes_are_dropped() {
        let one = |key: &str, operator: &str, effect: &str, seconds: Option<i64>| json!({"key": key, "operator": operator, "effect": effect, "tolerationSeconds": seconds});
        let merged = |first: &[Value], second: &[Value]| merge_tolerations(first, second);
        let all = one("", "Exists", "", None);
        assert_eq!(merged(&[one("a", "Exists", "NoSchedule", None)], std::slice::from_ref(&all)), [all]);
        let equal = one("a", "Exists", "NoSchedule", None);
        assert_eq!(merged(std::slice::from_ref(&equal), std::slice::from_ref(&equal)), [equal]);
        let (short, long) = (one("a", "Exists", "NoExecute", Some(1)), one("a", "Exists", "NoExecute", Some(2)));
        let forever = one("a", "Exists", "NoExecute", None);
        assert_eq!(merged(std::slice::from_ref(&short), std::slice::from_ref(&long)), std::slice::from_ref(&long));
        assert_eq!(merged(&[long], std::slice::from_ref(&forever)), [forever]);
        let different = [one("a", "Exists", "NoSchedule", None), one("b", "Exists", "NoSchedule", None)];
        assert_eq!(merged(&different[..1], &different[1..]), different);
    }
}
