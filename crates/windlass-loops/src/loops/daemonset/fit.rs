//! Eligibility of nodes for a daemon set, and the pod for a node.

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{
        Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, PodTemplateSpec,
        Taint, Toleration,
    },
};
use windlass::objects::owner::{OwnerError, controller_reference};

use crate::{
    pods,
    scheduling::{Labels, term_selects, tolerates},
};

/// Pod label with the hash of its revision.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const NODE_NAME: &str = "metadata.name";

/// The relation of a node and a daemon set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Whether a pod should be created there.
    pub(super) runs: bool,
    /// Whether an existing pod may stay.
    pub(super) stays: bool,
}

/// Determines whether a daemon set's pods should run on a node.
pub(super) fn fit(set: &DaemonSet, node: &Node) -> Fit {
    const NO: Fit = Fit { runs: false, stays: false };
    let Some(mut spec) = set.spec.as_ref().and_then(|spec| spec.template.spec.clone()) else { return NO };
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let names_another = spec.node_name.as_deref().is_some_and(|wanted| !wanted.is_empty() && wanted != name);
    if names_another || !is_chosen(&spec, name, node.metadata.labels.as_ref().unwrap_or(&Labels::new())) {
        return NO;
    }
    tolerate(&mut spec);
    let tolerations = spec.tolerations.unwrap_or_default();
    let taints: &[Taint] = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let repels = |effects: &[&str]| {
        taints.iter().any(|taint| effects.contains(&taint.effect.as_str()) && !tolerates(&tolerations, taint))
    };
    Fit { runs: !repels(&["NoSchedule", "NoExecute"]), stays: !repels(&["NoExecute"]) }
}

/// Returns whether a pod's node selector and affinity match a node.
fn is_chosen(spec: &PodSpec, name: &str, labels: &Labels) -> bool {
    let by_labels = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let by_terms = required
        .is_none_or(|required| required.node_selector_terms.iter().any(|term| term_selects(term, name, labels)));
    by_labels && by_terms
}

/// Adds the default tolerations of daemon pods, which run on unhealthy nodes, too.
fn tolerate(spec: &mut PodSpec) {
    let mut wanted = vec![
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if spec.host_network == Some(true) {
        wanted.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in wanted {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let is_same = |other: &Toleration| {
            (&other.key, &other.effect, &other.operator) == (&toleration.key, &toleration.effect, &toleration.operator)
                && other.value.as_deref().unwrap_or_default().is_empty()
        };
        match tolerations.iter_mut().find(|other| is_same(other)) {
            Some(other) => *other = toleration,
            None => tolerations.push(toleration),
        }
    }
}

/// The deprecated template generation, which clients may still use.
pub(super) fn template_generation(set: &DaemonSet) -> Option<i64> {
    set.metadata.annotations.as_ref()?.get(GENERATION_ANNOTATION)?.parse().ok()
}

/// Returns whether a pod was created from the set's current template.
pub(super) fn is_updated(pod: &Pod, hash: &str, generation: Option<i64>) -> bool {
    let label = |name: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(name));
    let by_hash = !hash.is_empty() && label(HASH_LABEL).is_some_and(|label| label == hash);
    by_hash
        || generation.is_some_and(|number| label(GENERATION_LABEL).is_some_and(|label| *label == number.to_string()))
}

/// Creates the pod for a node.
pub(super) fn new_pod(set: &DaemonSet, hash: &str, node: &str) -> Result<Pod, OwnerError> {
    let template = set.spec.as_ref().map_or_else(PodTemplateSpec::default, |spec| spec.template.clone());
    let meta = &set.metadata;
    let prefix = pods::name_prefix(meta.name.as_deref().unwrap_or_default());
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let mut pod = pods::from_template(&template, namespace, &prefix, controller_reference(set)?);
    let labels = pod.metadata.labels.get_or_insert_default();
    if let Some(generation) = template_generation(set) {
        labels.insert(GENERATION_LABEL.to_owned(), generation.to_string());
    }
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    let spec = pod.spec.get_or_insert_default();
    tolerate(spec);
    let affinity: &mut NodeAffinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_fields: Some(vec![NodeSelectorRequirement {
                key: NODE_NAME.to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![node.to_owned()]),
            }]),
            match_expressions: None,
        }],
    });
    Ok(pod)
}

/// The node that a pod is on, or is targeted at.
pub(super) fn target_node(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(name) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(name);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let named = fields.into_iter().find(|field| field.key == NODE_NAME && field.operator == "In")?;
    match named.values.as_deref() {
        Some([name]) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(spec: Value) -> DaemonSet {
        let set = json!({ "metadata": { "name": "agent", "namespace": "ns", "uid": "u",
                "annotations": { GENERATION_ANNOTATION: "3" } },
            "spec": { "selector": {}, "template": { "metadata": { "labels": { "app": "agent" } }, "spec": spec } } });
        serde_json::from_value(set).unwrap()
    }

    #[test]
    fn selectors_affinity_and_taints_decide() {
        let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms":
            [{ "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }] }] } } });
        let taint = |key: &str, effect: &str| json!([{ "key": key, "effect": effect }]);
        for (spec, labels, taints, runs, stays) in [
            (json!({ "containers": [] }), json!({}), json!([]), true, true),
            (json!({ "containers": [], "nodeSelector": { "disk": "ssd" } }), json!({}), json!([]), false, false),
            (
                json!({ "containers": [], "nodeSelector": { "disk": "ssd" } }),
                json!({ "disk": "ssd" }),
                json!([]),
                true,
                true,
            ),
            (json!({ "containers": [], "affinity": affinity }), json!({ "disk": "hdd" }), json!([]), false, false),
            (json!({ "containers": [], "affinity": affinity }), json!({ "disk": "ssd" }), json!([]), true, true),
            (json!({ "containers": [], "nodeName": "other" }), json!({}), json!([]), false, false),
            (json!({ "containers": [] }), json!({}), taint("x", "NoSchedule"), false, true),
            (json!({ "containers": [] }), json!({}), taint("x", "NoExecute"), false, false),
            (json!({ "containers": [] }), json!({}), taint("x", "PreferNoSchedule"), true, true),
            (json!({ "containers": [] }), json!({}), taint("node.kubernetes.io/not-ready", "NoExecute"), true, true),
            (
                json!({ "containers": [] }),
                json!({}),
                taint("node.kubernetes.io/unschedulable", "NoSchedule"),
                true,
                true,
            ),
            (
                json!({ "containers": [] }),
                json!({}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                false,
                true,
            ),
            (
                json!({ "containers": [], "hostNetwork": true }),
                json!({}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                true,
                true,
            ),
            (
                json!({ "containers": [], "tolerations": [{ "operator": "Exists" }] }),
                json!({}),
                taint("x", "NoExecute"),
                true,
                true,
            ),
        ] {
            let node = json!({ "metadata": { "name": "n", "labels": labels }, "spec": { "taints": taints } });
            let found = fit(&set(spec.clone()), &serde_json::from_value(node.clone()).unwrap());
            assert_eq!(found, Fit { runs, stays }, "{spec} {node}");
        }
    }

    #[test]
    fn a_pod_is_bound_to_its_node_by_affinity() {
        let set = set(json!({ "containers": [], "tolerations": [{ "key": "node.kubernetes.io/not-ready",
            "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 }] }));
        let pod = new_pod(&set, "abc", "node-1").unwrap();
        assert_eq!(target_node(&pod), Some("node-1"));
        assert!(is_updated(&pod, "abc", None) && is_updated(&pod, "x", Some(3)) && !is_updated(&pod, "x", Some(4)));
        let spec = pod.spec.unwrap();
        let tolerations = spec.tolerations.unwrap();
        assert_eq!(tolerations.len(), 6);
        assert_eq!(tolerations[0].toleration_seconds, None);
        assert_eq!(spec.node_name, None);
    }
}
