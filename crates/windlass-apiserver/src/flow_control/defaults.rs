//! The FlowSchemas and PriorityLevelConfigurations that every cluster has, as Kubernetes v1.36 ships them.

use serde_json::{Value, json};

pub(super) const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
/// Whether an object follows the defaults of the server.
pub(super) const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// The names of the objects that always have their default specs.
pub(super) const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

/// Builds the default PriorityLevelConfigurations one after the other; the mandatory ones last.
pub(super) fn priority_levels() -> impl Iterator<Item = Value> {
    // Not a list of values: all of them at once take hundreds of kilobytes.
    let levels: [fn() -> Value; 8] = [
        || queue("system", 30, 33, 64, 6),
        || queue("node-high", 40, 25, 64, 6),
        || queue("leader-election", 10, 0, 16, 4),
        || queue("workload-high", 40, 50, 128, 6),
        || queue("workload-low", 100, 90, 128, 6),
        || queue("global-default", 20, 50, 128, 6),
        || limited("catch-all", 5, 0, json!({"type": "Reject"})),
        || {
            let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
            object("PriorityLevelConfiguration", "exempt", exempt)
        },
    ];
    levels.into_iter().map(|level| level())
}

/// Builds the default FlowSchemas one after the other; the mandatory ones last.
pub(super) fn flow_schemas() -> impl Iterator<Item = Value> {
    let schemas: [fn() -> Value; 11] = [
        || schema("system-nodes", "system", 500, "ByUser", all(nodes())),
        || {
            let node = resource_rule(&["*"], "", &["nodes", "nodes/status"], true);
            let rule = json!({"subjects": nodes(), "resourceRules": [node, leases(&["*"])]});
            schema("system-node-high", "node-high", 400, "ByUser", rule)
        },
        || {
            let urls = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]});
            schema("probes", "exempt", 2, "", json!({"subjects": everyone(), "nonResourceRules": [urls]}))
        },
        || {
            let leaders =
                json!([user("system:kube-controller-manager"), user("system:kube-scheduler"), kube_system()[0]]);
            let rule = json!({"subjects": leaders, "resourceRules": [leases(&["get", "create", "update"])]});
            schema("system-leader-election", "leader-election", 100, "ByUser", rule)
        },
        || {
            let manager = all(json!([user("system:kube-controller-manager")]));
            schema("kube-controller-manager", "workload-high", 800, "ByNamespace", manager)
        },
        || schema("kube-scheduler", "workload-high", 800, "ByNamespace", all(json!([user("system:kube-scheduler")]))),
        || schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", all(kube_system())),
        || schema("service-accounts", "workload-low", 9000, "ByUser", all(groups(&["system:serviceaccounts"]))),
        || schema("global-default", "global-default", 9900, "ByUser", all(everyone())),
        || schema("exempt", "exempt", 1, "", all(groups(&["system:masters"]))),
        || schema("catch-all", "catch-all", 10_000, "ByUser", all(everyone())),
    ];
    schemas.into_iter().map(|schema| schema())
}

fn everyone() -> Value {
    groups(&["system:unauthenticated", "system:authenticated"])
}

fn nodes() -> Value {
    groups(&["system:nodes"])
}

fn kube_system() -> Value {
    json!([{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}])
}

fn leases(verbs: &[&str]) -> Value {
    resource_rule(verbs, "coordination.k8s.io", &["leases"], false)
}

fn queue(name: &str, shares: u32, lendable: u32, queues: u32, hand: u32) -> Value {
    let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": 50});
    limited(name, shares, lendable, json!({"type": "Queue", "queuing": queuing}))
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "annotations": {AUTO_UPDATE: "true"}});
    json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
}

fn limited(name: &str, shares: u32, lendable: u32, response: Value) -> Value {
    let limited = json!({"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response});
    object("PriorityLevelConfiguration", name, json!({"type": "Limited", "limited": limited}))
}

fn schema(name: &str, level: &str, precedence: u32, distinguisher: &str, rule: Value) -> Value {
    let mut spec =
        json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]});
    if !distinguisher.is_empty() {
        spec["distinguisherMethod"] = json!({"type": distinguisher});
    }
    object("FlowSchema", name, spec)
}

/// Returns a rule for all requests of these subjects.
fn all(subjects: Value) -> Value {
    json!({
        "subjects": subjects, "resourceRules": [resource_rule(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

fn resource_rule(verbs: &[&str], group: &str, resources: &[&str], cluster_scope: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if cluster_scope {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn groups(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}
