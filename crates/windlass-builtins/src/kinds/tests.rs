pub(crate) mod expectations;
pub(crate) mod workloads;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use serde_json::{Map, json};

use super::*;
use crate::facts::NameRule;
use crate::resource::Resource;
use crate::strategy::{Strategy, WriteContext};
use crate::table::{table, unstable};

fn all() -> impl Iterator<Item = (&'static str, &'static dyn Strategy)> {
    table().resources.iter().map(|resource| (&*resource.plural, strategy(&resource.group, &resource.plural)))
}

#[test]
fn every_resource_has_exactly_one_row_of_facts() {
    let resources = table().resources.iter().chain(&unstable().resources);
    let resources: BTreeSet<_> = resources.map(|resource| (&*resource.group, &*resource.plural)).collect();
    let mut rows: Vec<_> = facts::resources().collect();
    rows.sort_unstable();
    assert_eq!(rows, resources.into_iter().collect::<Vec<_>>());
}

#[test]
fn names_and_updates_follow_the_real_strategies() {
    let rule = |group, resource| facts(group, resource).name_rule;
    assert_eq!(rule("rbac.authorization.k8s.io", "roles"), NameRule::PathSegment);
    assert_eq!(rule("apps", "statefulsets"), NameRule::DnsLabel);
    assert_eq!(rule("", "services"), NameRule::DnsLabel);
    assert_eq!(rule("", "events"), NameRule::PathSegment);
    assert_eq!(rule("apps", "daemonsets"), NameRule::DnsSubdomain);

    let creates = |resource: &&Resource| facts(&resource.group, &resource.plural).creates_on_update;
    let mut creating: Vec<_> = table().resources.iter().filter(creates).map(|resource| &*resource.plural).collect();
    creating.sort_unstable();
    creating.dedup();
    assert_eq!(
        creating,
        [
            "clusterrolebindings",
            "clusterroles",
            "endpoints",
            "events",
            "leases",
            "limitranges",
            "rolebindings",
            "roles",
            "runtimeclasses",
            "services",
        ]
    );
    assert!(!facts("policy", "poddisruptionbudgets").allows_unconditional_update);
    assert!(facts("", "configmaps").allows_unconditional_update);
}

#[test]
fn generation_counts_the_same_fields_as_kube_apiserver() {
    let old = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"x": 1}, "status": {"y": 1}});
    let mut new = old.clone();
    new["status"]["y"] = json!(2);
    new["metadata"]["labels"]["a"] = json!("2");
    let changes = |group, resource, new: &serde_json::Value| facts(group, resource).generation.changes(new, &old);
    assert!(!changes("apps", "daemonsets", &new));
    assert!(changes("discovery.k8s.io", "endpointslices", &new));
    new["spec"]["x"] = json!(2);
    assert!(changes("apps", "daemonsets", &new));
    assert!(!changes("scheduling.k8s.io", "priorityclasses", &new));
    assert!(facts("scheduling.k8s.io", "priorityclasses").generation.is_set());
}

/// Any JSON, with the field names that strategies read.
fn any_json() -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
    const NAMES: &[&str] = &[
        "metadata",
        "spec",
        "status",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "data",
        "binaryData",
        "stringData",
        "type",
        "ports",
        "port",
        "nodePort",
        "targetPort",
        "protocol",
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "sessionAffinity",
        "sessionAffinityConfig",
        "externalIPs",
        "loadBalancer",
        "ingress",
        "ip",
        "taints",
        "podCIDRs",
        "podCIDR",
        "capacity",
        "addresses",
        "conditions",
        "eventTime",
        "series",
        "count",
        "involvedObject",
        "source",
        "selector",
        "subsets",
        "endpoints",
        "rules",
        "subjects",
        "metrics",
        "secrets",
        "immutable",
        "template",
        "containers",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "creationTimestamp",
        "configSource",
        "loadBalancerSourceRanges",
        "accessModes",
        "nodeAffinity",
        "required",
        "nodeSelectorTerms",
        "matchExpressions",
        "values",
        "key",
        "operator",
        "resources",
        "requests",
        "storage",
        "hard",
        "scopes",
        "scopeSelector",
        "limits",
        "max",
        "default",
        "verbs",
        "nonResourceURLs",
        "aggregationRule",
        "roleRef",
        "http",
        "paths",
        "path",
        "backend",
        "tls",
        "hosts",
        "egress",
        "from",
        "to",
        "ipBlock",
        "cidr",
        "except",
        "endPort",
        "cidrs",
        "parentRef",
        "csi",
        "iscsi",
        "hostPath",
        "dataSource",
        "dataSourceRef",
        "storageClassName",
        "parameters",
        "allowedTopologies",
        "drivers",
        "topologyKeys",
        "tokenRequests",
        "limited",
        "limitResponse",
        "queuing",
        "queues",
        "handSize",
        "nodeTopology",
        "scheduling",
        "tolerations",
        "overhead",
        "podFixed",
    ];
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        (-2i64..70000).prop_map(|value| json!(value)),
        prop_oneof![
            Just(""),
            Just("None"),
            Just("10.0.0.1"),
            Just("::1"),
            Just("1Gi"),
            Just("-1"),
            Just("LoadBalancer"),
            Just("NodePort"),
            Just("ExternalName"),
            Just("ClusterIP"),
            Just("Local"),
            Just("ClientIP"),
            Just("SingleStack"),
            Just("IPv4"),
            Just("2026-01-01T00:00:00Z"),
            Just("kubernetes.io/tls"),
            Just("events.k8s.io/v1"),
        ]
        .prop_map(|value| json!(value)),
        ".{0,6}".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((prop::sample::select(NAMES), inner), 0..6).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                serde_json::Value::Object(fields.collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_strategy_panics_on_any_json(new in any_json(), old in any_json()) {
        let now = jiff::Timestamp::UNIX_EPOCH;
        for resource in &table().resources {
            let facts = facts(&resource.group, &resource.plural);
            facts.generation.changes(&new, &old);
            if let Some(printer) = facts.printer {
                (printer.cells)(&new, now);
                (printer.row_conditions)(&new);
            }
        }
        for (name, kind) in all() {
            let mut object = new.clone();
            kind.default(&mut object);
            let once = object.clone();
            kind.default(&mut object);
            prop_assert_eq!(&object, &once, "{}: defaulting must be idempotent", name);
            kind.validate(&object);
            kind.validate_update(&object, &old);
            kind.warnings(&object, Some(&old));
            kind.selectable_fields(&object);
            for subresource in ["status", "finalize", "scale"] {
                let mut object = object.clone();
                kind.prepare_for_subresource_update(subresource, &mut object, &old, &WriteContext::test());
                kind.validate_subresource_update(subresource, &object, &old);
            }
            let mut created = object.clone();
            kind.prepare_for_create(&mut created, &WriteContext::test());
            kind.prepare_for_update(&mut object, &old, &WriteContext::test());
        }
        let mut allocator = service::allocator::ServiceAllocator::default();
        let mut created = new.clone();
        if let Ok(allocation) = allocator.allocate(&mut created, None, false) {
            allocator.observe("n/s", Some(&created));
            allocator.release(allocation);
        }
        let mut updated = new.clone();
        if let Ok(allocation) = allocator.allocate(&mut updated, Some(&old), false) {
            allocator.release(allocation);
        }
        allocator.observe("n/s", Some(&new));
        allocator.problems();
        allocator.observe("n/s", None);
    }
}
