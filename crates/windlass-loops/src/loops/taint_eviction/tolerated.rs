//! Time for which pods tolerate the taints of their node. Pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use windlass::controller::filter::Change;

use crate::{pods::node_of, scheduling::tolerates};

/// Returns whether a change of a pod matters: its node, its tolerations, or its deletion.
pub(super) fn concerns(change: &Change<'_, Pod>) -> bool {
    let tolerations = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
    match (change.old, change.new) {
        (Some(old), Some(new)) if !change.resync => {
            node_of(old) != node_of(new) || tolerations(old) != tolerations(new)
        }
        (_, Some(new)) => node_of(new).is_some(),
        (_, None) => true,
    }
}

/// The `NoExecute` taints of a node.
pub(super) fn no_execute(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().filter(|taint| taint.effect == "NoExecute").cloned().collect()
}

/// Maximum time that a pod may stay.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// Indefinitely.
    Forever,
    /// The pod tolerates the taints for this time.
    For(Duration),
    /// The pod does not tolerate a taint.
    NoLonger,
}

pub(super) fn stay(tolerations: &[Toleration], taints: &[Taint]) -> Stay {
    let mut shortest = None;
    for taint in taints {
        let fits = |toleration: &&Toleration| tolerates(std::slice::from_ref(*toleration), taint);
        let Some(toleration) = tolerations.iter().find(fits) else { return Stay::NoLonger };
        if let Some(seconds) = toleration.toleration_seconds {
            let seconds = u64::try_from(seconds).unwrap_or_default();
            shortest = Some(shortest.map_or(seconds, |known: u64| known.min(seconds)));
        }
    }
    shortest.map_or(Stay::Forever, |seconds| Stay::For(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_stays_for_as_long_as_it_tolerates_every_taint() {
        let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
        let forever = |key: &str| json!({"key": key, "operator": "Exists"});
        let briefly = |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let seconds = |seconds| Stay::For(Duration::from_secs(seconds));
        for (tolerations, taints, expected) in [
            (json!([]), json!([]), Stay::Forever),
            (json!([]), json!([taint("a")]), Stay::NoLonger),
            (json!([forever("a")]), json!([taint("a")]), Stay::Forever),
            (json!([forever("a")]), json!([taint("a"), taint("b")]), Stay::NoLonger),
            (json!([briefly("a", 9), briefly("b", 5)]), json!([taint("a"), taint("b")]), seconds(5)),
            (json!([briefly("a", 9), forever("b")]), json!([taint("a"), taint("b")]), seconds(9)),
            (json!([briefly("a", -1)]), json!([taint("a")]), seconds(0)),
            // The first matching toleration counts.
            (json!([forever("a"), briefly("a", 9)]), json!([taint("a")]), Stay::Forever),
        ] {
            let parse = |value: &Value| serde_json::from_value(value.clone()).unwrap();
            let (wants, has): (Vec<Toleration>, Value) = (parse(&tolerations), taints.clone());
            let has: Vec<Taint> = serde_json::from_value(has).unwrap();
            assert_eq!(stay(&wants, &has), expected, "{tolerations} {taints}");
        }
    }

    #[test]
    fn only_changes_of_node_and_tolerations_and_deletions_matter() {
        let pod = |node: &str, tolerations: Value, phase: &str| -> Pod {
            let spec = json!({"nodeName": node, "containers": [], "tolerations": tolerations});
            serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
        };
        let (free, placed) = (pod("", json!([]), "Pending"), pod("n", json!([]), "Pending"));
        let (running, tolerant) = (pod("n", json!([]), "Running"), pod("n", json!([{"key": "a"}]), "Pending"));
        for (old, new, expected) in [
            (None, Some(&free), false),
            (None, Some(&placed), true),
            (Some(&free), Some(&placed), true),
            (Some(&placed), Some(&running), false),
            (Some(&placed), Some(&tolerant), true),
            (Some(&placed), None, true),
        ] {
            assert_eq!(concerns(&Change { old, new, initial: false, resync: false }), expected);
        }
    }
}
