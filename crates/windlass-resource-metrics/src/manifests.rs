//! The roles of a metrics server. Pure.

use serde_json::{Value, json};
use windlass_schema::sorting::Gather as _;

use crate::objects::GROUP;

/// The name of the server, its service account and its Service.
pub const NAME: &str = "metrics-server";
/// The namespace of the server.
pub const NAMESPACE: &str = "kube-system";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the role that lets users with the roles `view`, `edit` and `admin` read metrics.
pub fn reader() -> Value {
    let label = |role: &str| (format!("{RBAC}/aggregate-to-{role}"), Value::from("true"));
    let labels: serde_json::Map<String, Value> = ["view", "edit", "admin"].map(label).into_iter().gather();
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": "system:aggregated-metrics-reader", "labels": labels},
        "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
    })
}

/// Returns the role of the server itself, and its binding. It reads the metrics of nodes through the API server.
pub fn permissions() -> Vec<Value> {
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "system:metrics-server"},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes/metrics", "nodes/proxy"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
        ],
    });
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "system:metrics-server"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:metrics-server"},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    });
    vec![reader(), role, binding]
}
