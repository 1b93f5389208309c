//! The labels that a node may set on its Node object.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

/// Labels of Kubernetes that nodes report.
const REPORTED: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Returns the labels of an object.
pub(super) fn of(object: &Value) -> BTreeMap<&str, &str> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).gather()
}

/// Returns the changed labels that a node may not change, sorted.
pub(super) fn forbidden<'v>(object: &'v Value, old: &'v Value) -> Vec<&'v str> {
    let (new, old) = (of(object), of(old));
    let mut changed: Vec<&str> = new.keys().chain(old.keys()).copied().collect();
    changed.sort_unstable();
    changed.dedup();
    changed.retain(|key| new.get(key) != old.get(key) && is_forbidden(key));
    changed
}

fn is_forbidden(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let within = |domain: &str| prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let reported = REPORTED.contains(&key) || within("kubelet.kubernetes.io") || within("node.kubernetes.io");
    within("node-restriction.kubernetes.io") || (within("kubernetes.io") || within("k8s.io")) && !reported
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_may_set_reported_labels_and_those_of_others() {
        let old = json!({"metadata": {"labels": {"gone.k8s.io/x": "1", "same.k8s.io/y": "1"}}});
        let new = json!({"metadata": {"labels": {
            "same.k8s.io/y": "1", "kubernetes.io/os": "linux", "a.node.kubernetes.io/b": "1", "example.com/c": "1",
            "plain": "1", "node-restriction.kubernetes.io/d": "1", "x.node-restriction.kubernetes.io/e": "1",
            "node-role.kubernetes.io/control-plane": "", "notkubernetes.io/f": "1",
        }}});
        let expected = [
            "gone.k8s.io/x",
            "node-restriction.kubernetes.io/d",
            "node-role.kubernetes.io/control-plane",
            "x.node-restriction.kubernetes.io/e",
        ];
        assert_eq!(forbidden(&new, &old), expected);
    }
}
