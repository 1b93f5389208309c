//! The objects that register the server with the main API server.

use serde_json::{Value, json};

use crate::Extension;

/// The port of the Service.
const PORT: u16 = 443;

/// Where the main API server reaches the server.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The namespace of the Service.
    pub namespace: String,
    /// The name of the Service and of the service account.
    pub service: String,
    /// The port that the server listens on.
    pub target_port: u16,
    /// A host outside of the cluster that the server runs on; without one, the Service selects pods.
    pub host: Option<String>,
    /// The certificates that vouch for the server, in PEM and base64.
    pub ca_bundle: String,
}

impl Extension {
    /// Returns the Service and the APIServices.
    pub fn registration(&self, registration: &Registration) -> Vec<Value> {
        let Registration { namespace, service, target_port, host, ca_bundle } = registration;
        let spec = match host {
            Some(host) => json!({
                "type": "ExternalName", "externalName": host,
                "ports": [{"name": "https", "port": PORT, "targetPort": target_port}],
            }),
            None => json!({
                "selector": {"app.kubernetes.io/name": self.name},
                "ports": [{"name": "https", "port": PORT, "targetPort": target_port}],
            }),
        };
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": namespace}, "spec": spec,
        })];
        let versions = self.group_versions();
        objects.extend(versions.iter().enumerate().map(|(position, (group, version))| {
            let priority = 100_i64.saturating_sub(i64::try_from(position).unwrap_or(i64::MAX)).max(1);
            json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": format!("{version}.{group}")},
                "spec": {
                    "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": priority,
                    "service": {"namespace": namespace, "name": service, "port": PORT}, "caBundle": ca_bundle,
                },
            })
        }));
        objects
    }

    /// Returns the namespace, the service account, and the bindings by which the server may ask the main API server who a
    /// user is and what it may do.
    pub fn permissions(&self, registration: &Registration) -> Vec<Value> {
        let Registration { namespace, service, .. } = registration;
        let subjects = json!([{"kind": "ServiceAccount", "name": service, "namespace": namespace}]);
        let role =
            |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service, "namespace": namespace},
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{}:system:auth-delegator", self.name)},
                "roleRef": role("ClusterRole", "system:auth-delegator"), "subjects": subjects,
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": format!("{}-auth-reader", self.name), "namespace": "kube-system"},
                "roleRef": role("Role", "extension-apiserver-authentication-reader"), "subjects": subjects,
            }),
        ]
    }
}
