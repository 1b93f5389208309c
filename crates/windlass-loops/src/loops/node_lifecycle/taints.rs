//! Taints and labels that follow from a node's conditions. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};
use windlass_schema::sorting::Gather as _;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions, the status that causes a taint, and the taint.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Deprecated labels and the labels they copy.
const COPIES: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// The taints of a node.
pub(super) fn of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns whether there is a taint with this key and effect.
pub(super) fn has(taints: &[Taint], key: &str, effect: &str) -> bool {
    taints.iter().any(|taint| taint.key == key && taint.effect == effect)
}

/// Returns the taints of a node with updated `NoSchedule` taints, or `None` if they are unchanged.
pub(super) fn with_no_schedule(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let told = conditions.into_iter().flatten().filter_map(|condition| {
        CONDITION_TAINTS
            .iter()
            .find(|(kind, status, _)| condition.type_ == *kind && condition.status == *status)
            .map(|taint| taint.2)
    });
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    let wanted: Vec<&str> = told.chain(unschedulable.then_some(UNSCHEDULABLE)).collect();
    let ours = |taint: &Taint| {
        let known = taint.key == UNSCHEDULABLE || CONDITION_TAINTS.iter().any(|(_, _, key)| taint.key == *key);
        known && taint.effect == "NoSchedule"
    };
    let present = of(node);
    let missing: Vec<&str> = wanted.iter().copied().filter(|key| !has(present, key, "NoSchedule")).collect();
    let kept = |taint: &&Taint| !ours(taint) || wanted.contains(&taint.key.as_str());
    if missing.is_empty() && present.iter().all(|taint| kept(&taint)) {
        return None;
    }
    let mut taints: Vec<Taint> = present.iter().filter(kept).cloned().collect();
    taints.extend(missing.into_iter().map(|key| taint(key, "NoSchedule", now)));
    Some(taints)
}

/// Returns the taints with this `NoExecute` taint and without the opposite one, or `None` if they are unchanged.
pub(super) fn with_no_execute(present: &[Taint], key: Option<&str>, now: Timestamp) -> Option<Vec<Taint>> {
    let stale = |taint: &Taint| {
        taint.effect == "NoExecute"
            && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
            && Some(&*taint.key) != key
    };
    let missing = key.filter(|key| !has(present, key, "NoExecute"));
    if missing.is_none() && !present.iter().any(stale) {
        return None;
    }
    let mut taints: Vec<Taint> = present.iter().filter(|taint| !stale(taint)).cloned().collect();
    taints.extend(missing.map(|key| taint(key, "NoExecute", now)));
    Some(taints)
}

/// The deprecated labels that are missing or differ from their originals.
pub(super) fn labels(node: &Node) -> BTreeMap<&'static str, String> {
    let Some(labels) = &node.metadata.labels else { return BTreeMap::new() };
    let due = COPIES.iter().filter_map(|(original, copy)| {
        let value = labels.get(*original)?;
        (labels.get(*copy) != Some(value)).then(|| (*copy, value.clone()))
    });
    due.gather()
}

fn taint(key: &str, effect: &str, now: Timestamp) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), time_added: Some(Time(now)), value: None }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    fn words(taints: Option<Vec<Taint>>) -> Option<Vec<String>> {
        let word = |taint: &Taint| format!("{}:{}", taint.key.replace("node.kubernetes.io/", ""), taint.effect);
        taints.map(|taints| taints.iter().map(word).collect())
    }

    #[test]
    fn taints_follow_conditions() {
        let not_ready = json!({"key": NOT_READY, "effect": "NoSchedule"});
        let own = json!({"key": "mine", "effect": "NoSchedule"});
        let expels = json!({"key": NOT_READY, "effect": "NoExecute"});
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        for (taints, conditions, unschedulable, expected) in [
            (json!([]), json!([]), false, None),
            (json!([not_ready, own, expels]), json!([]), false, Some("mine:NoSchedule not-ready:NoExecute")),
            (json!([not_ready]), ready("True"), false, Some("")),
            (json!([not_ready]), ready("False"), false, None),
            (json!([not_ready]), ready("Unknown"), false, Some("unreachable:NoSchedule")),
            (json!([own]), ready("True"), true, Some("mine:NoSchedule unschedulable:NoSchedule")),
            (
                json!([]),
                json!([{"type": "MemoryPressure", "status": "True"}, {"type": "DiskPressure", "status": "False"},
                    {"type": "PIDPressure", "status": "True"}, {"type": "Other", "status": "True"}]),
                false,
                Some("memory-pressure:NoSchedule pid-pressure:NoSchedule"),
            ),
        ] {
            let spec = json!({"taints": taints, "unschedulable": unschedulable});
            let node = node(json!({"spec": spec, "status": {"conditions": conditions}}));
            let expected = expected.map(|words| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(words(with_no_schedule(&node, Timestamp::UNIX_EPOCH)), expected, "{node:?}");
        }
    }

    #[test]
    fn there_is_only_one_no_execute_taint() {
        let taint = |key: &str| Taint { key: key.into(), effect: "NoExecute".into(), ..Taint::default() };
        let now = Timestamp::UNIX_EPOCH;
        for (present, key, expected) in [
            (vec![], None, None),
            (vec![], Some(NOT_READY), Some(vec!["not-ready:NoExecute"])),
            (vec![NOT_READY], Some(NOT_READY), None),
            (vec![NOT_READY, "mine"], Some(UNREACHABLE), Some(vec!["mine:NoExecute", "unreachable:NoExecute"])),
            (vec![NOT_READY, UNREACHABLE], None, Some(vec![])),
        ] {
            let taints: Vec<Taint> = present.iter().map(|key| taint(key)).collect();
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(words(with_no_execute(&taints, key, now)), expected, "{present:?} {key:?}");
        }
    }

    #[test]
    fn deprecated_labels_are_copies() {
        let labels_of =
            |value: Value| labels(&node(json!({"metadata": {"labels": value}}))).into_keys().collect::<Vec<_>>();
        assert_eq!(labels_of(json!({"kubernetes.io/os": "linux"})), ["beta.kubernetes.io/os"]);
        let both = json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64",
            "beta.kubernetes.io/arch": "amd64"});
        assert_eq!(labels_of(both), ["beta.kubernetes.io/arch"]);
        assert!(labels_of(json!({"beta.kubernetes.io/os": "linux"})).is_empty());
    }
}
