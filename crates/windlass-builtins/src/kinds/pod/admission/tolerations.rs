//! Tolerations: merging them, and those that plugins add or restrict.

use serde_json::{Value, json};

use super::super::resources::qos_class;
use crate::object::{entries, integer, items, set, text};
use crate::resource_list::is_extended;

/// Returns the tolerations of both lists, without those that another one includes.
pub(super) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
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

/// Lets a pod tolerate the taints of nodes with the extended resources that it requests.
pub fn tolerate_extended_resources(pod: &mut Value) {
    let containers = items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers"));
    let requests = containers.flat_map(|container| entries(container, "/resources/requests"));
    let mut names: Vec<String> = requests.map(|(name, _)| name.to_owned()).filter(|name| is_extended(name)).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let added = json!({"key": name, "operator": "Exists", "effect": "NoSchedule"});
        let mut tolerations = items(pod, "/spec/tolerations").to_vec();
        let is_same_kind = |one: &Value| {
            ["/key", "/operator", "/value", "/effect"].iter().all(|field| text(one, field) == text(&added, field))
        };
        match tolerations.iter_mut().find(|toleration| is_same_kind(toleration)) {
            Some(toleration) => *toleration = added.clone(),
            None => tolerations.push(added.clone()),
        }
        set(pod, "/spec/tolerations", tolerations);
    }
}

/// Adds the default tolerations of the namespace or cluster, and tolerates the taint of nodes with little memory for pods
/// that request resources.
pub fn add_tolerations(pod: &mut Value, defaults: &[Value]) {
    let mut added = defaults.to_vec();
    if qos_class(pod) != "BestEffort" {
        added.push(json!({"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}));
    }
    if !added.is_empty() {
        let merged = merge(items(pod, "/spec/tolerations"), &added);
        set(pod, "/spec/tolerations", merged);
    }
}

/// Returns whether every toleration of the pod is included in an allowed one; an empty list allows all.
pub fn tolerates_only(pod: &Value, allowed: &[Value]) -> bool {
    let mut tolerations = items(pod, "/spec/tolerations").iter();
    allowed.is_empty() || tolerations.all(|toleration| allowed.iter().any(|wide| includes(wide, toleration)))
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

    #[test]
    fn tolerations_that_another_includes_are_dropped() {
        let one = |key: &str, operator: &str, effect: &str, seconds: Option<i64>| json!({"key": key, "operator": operator, "effect": effect, "tolerationSeconds": seconds});
        let merged = |first: &[Value], second: &[Value]| merge(first, second);
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

    #[test]
    fn extended_resources_are_tolerated_once() {
        let mut pod = json!({"spec": {"containers": [
            {"resources": {"requests": {"example.com/b": "1", "cpu": "1", "example.com/a": "2"}}},
            {"resources": {"requests": {"example.com/b": "1"}}},
        ]}});
        tolerate_extended_resources(&mut pod);
        let expected = json!([
            {"key": "example.com/a", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "example.com/b", "operator": "Exists", "effect": "NoSchedule"},
        ]);
        assert_eq!(pod["spec"]["tolerations"], expected);
        tolerate_extended_resources(&mut pod);
        assert_eq!(pod["spec"]["tolerations"], expected);
    }

    #[test]
    fn tolerations_are_restricted_to_those_that_are_allowed() {
        let mut pod = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
        add_tolerations(&mut pod, &[json!({"key": "a", "operator": "Exists"})]);
        let keys: Vec<_> = items(&pod, "/spec/tolerations").iter().map(|one| text(one, "/key")).collect();
        assert_eq!(keys, ["a", "node.kubernetes.io/memory-pressure"]);
        let only_a = [json!({"key": "a", "operator": "Exists"})];
        assert!(!tolerates_only(&pod, &only_a));
        assert!(tolerates_only(&pod, &[json!({"operator": "Exists"})]));
        assert!(tolerates_only(&pod, &[]));
        let mut small = json!({"spec": {"containers": [{}]}});
        add_tolerations(&mut small, &[]);
        assert!(small["spec"].get("tolerations").is_none());
        assert!(tolerates_only(&small, &only_a));
    }
}
