//! Access to the metrics: roles, and a ServiceMonitor for the Prometheus Operator.

use serde_json::{Value, json};

use super::{Manifest, OperatorManifests, Part};

/// Group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";
/// Token of the account that Prometheus runs as.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Returns the role for token and access reviews of the operator's clients, and its binding. Reviews are
/// cluster-scoped, so operators that are restricted to namespaces need it, too.
pub(super) fn review_role(operator: &OperatorManifests, service_account: &str) -> Vec<Manifest> {
    if !operator.serves_secure_metrics() {
        return Vec::new();
    }
    let name = format!("{service_account}-metrics-auth");
    let rule =
        |group: &str, resource: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["create"] });
    let rules = [rule("authentication.k8s.io", "tokenreviews"), rule("authorization.k8s.io", "subjectaccessreviews")];
    let subject = json!({ "kind": "ServiceAccount", "name": service_account, "namespace": operator.namespace });
    let binding = json!({
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": name },
        "subjects": [subject],
    });
    vec![
        cluster_role(operator, &name, json!(rules)),
        operator.manifest(Part::Rbac, (RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"), None, &name, binding),
    ]
}

/// Returns a role for users that scrape the metrics, such as Prometheus. Nothing is bound to it.
pub(super) fn reader_role(operator: &OperatorManifests) -> Option<Manifest> {
    let rules = json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]);
    let name = format!("{}-metrics-reader", operator.name);
    operator.serves_secure_metrics().then(|| cluster_role(operator, &name, rules))
}

fn cluster_role(operator: &OperatorManifests, name: &str, rules: Value) -> Manifest {
    operator.manifest(Part::Rbac, (RBAC, "v1", "ClusterRole", "clusterroles"), None, name, json!({ "rules": rules }))
}

pub(super) fn manifests(operator: &OperatorManifests) -> Option<Manifest> {
    if !operator.service_monitor || operator.metrics_port.is_none() {
        return None;
    }
    let mut labels = operator.selector();
    labels["app.kubernetes.io/component"] = json!("metrics");
    let endpoint = match operator.serves_secure_metrics() {
        true => json!({
            "bearerTokenFile": TOKEN,
            "path": "/metrics",
            "port": "metrics",
            "scheme": "https",
            // The certificate is self-signed.
            "tlsConfig": { "insecureSkipVerify": true },
        }),
        false => json!({ "path": "/metrics", "port": "metrics", "scheme": "http" }),
    };
    let spec = json!({ "endpoints": [endpoint], "selector": { "matchLabels": labels } });
    let resource = ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors");
    let namespace = Some(operator.namespace.as_str());
    Some(operator.manifest(Part::Monitoring, resource, namespace, &operator.name, json!({ "spec": spec })))
}
