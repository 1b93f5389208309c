//! The objects that register the server with the main API server.

use serde_json::{Value, json};

use crate::Extension;

/// The port of a Service that selects pods.
const PORT: u16 = 443;

/// Address at which the main API server reaches the server.
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
    /// The CA certificates of the server, in PEM and base64; empty if the server publishes them itself.
    pub ca_bundle: String,
}

impl Extension {
    /// Returns the Service and the APIServices.
    pub fn registration(&self, registration: &Registration) -> Vec<Value> {
        let Registration { namespace, service, target_port, host, ca_bundle } = registration;
        // kube-apiserver connects to the port of the APIService at the external name, regardless of the target port.
        let port = if host.is_some() { *target_port } else { PORT };
        let ports = json!([{"name": "https", "port": port, "targetPort": target_port}]);
        let spec = match host {
            Some(host) => json!({"type": "ExternalName", "externalName": host, "ports": ports}),
            None => json!({"selector": {"app.kubernetes.io/name": self.name}, "ports": ports}),
        };
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": namespace}, "spec": spec,
        })];
        let versions = self.group_versions();
        objects.extend(versions.iter().enumerate().map(|(position, (group, version))| {
            let priority = 100_i64.saturating_sub(i64::try_from(position).unwrap_or(i64::MAX)).max(1);
            let mut object = json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": format!("{version}.{group}")},
                "spec": {
                    "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": priority,
                    "service": {"namespace": namespace, "name": service, "port": port},
                },
            });
            if !ca_bundle.is_empty() {
                object["spec"]["caBundle"] = ca_bundle.as_str().into();
            }
            object
        }));
        objects
    }

    /// Returns the Deployment that runs an image of the server. The image contains the program as `/NAME`. The server
    /// issues its certificate when it starts, and writes the authority into its APIServices, so there is one replica.
    pub fn deployment(&self, registration: &Registration, image: &str) -> Value {
        let Registration { namespace, service, target_port, .. } = registration;
        let labels = json!({"app.kubernetes.io/name": self.name});
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}});
        let container = json!({
            "name": "server", "image": image, "command": [format!("/{}", self.name)],
            "args": [
                "--address=0.0.0.0", format!("--port={target_port}"), format!("--namespace={namespace}"),
                "--publish-authority",
            ],
            "ports": [{"name": "https", "containerPort": target_port}],
            "livenessProbe": probe("/livez"), "readinessProbe": probe("/readyz"),
            "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
            },
        });
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": service, "namespace": namespace, "labels": labels},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "serviceAccountName": service, "containers": [container],
                        "securityContext": {
                            "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
                        },
                    },
                },
            },
        })
    }

    /// Returns the names of the APIServices.
    pub(crate) fn api_services(&self) -> Vec<String> {
        self.group_versions().iter().map(|(group, version)| format!("{version}.{group}")).collect()
    }

    /// Returns the namespace, the service account, and the roles and bindings that allow the server to authenticate and
    /// authorize users through the main API server, and to publish its authority.
    pub fn permissions(&self, registration: &Registration) -> Vec<Value> {
        let Registration { namespace, service, .. } = registration;
        let subjects = json!([{"kind": "ServiceAccount", "name": service, "namespace": namespace}]);
        let added = self.added_manifests().iter().cloned();
        let role =
            |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let own = [
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
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": format!("{}:apiservices", self.name)},
                "rules": [{
                    "apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"], "verbs": ["get", "patch"],
                    "resourceNames": self.api_services(),
                }],
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{}:apiservices", self.name)},
                "roleRef": role("ClusterRole", &format!("{}:apiservices", self.name)), "subjects": subjects,
            }),
        ];
        own.into_iter().chain(added).collect()
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;

    use super::*;
    use crate::Kind;

    #[derive(JsonSchema)]
    struct Empty {}

    #[test]
    fn the_port_of_an_external_name_is_the_port_of_the_server() {
        let kind = Kind::of::<Empty>("wardle.example.com", "v1", "Flunder", "flunders");
        let extension = Extension::new("wardle").plain_kind(&kind);
        for (host, expected) in [(Some("localhost".to_owned()), 8443), (None, 443)] {
            let registration = Registration {
                namespace: "sea".to_owned(),
                service: "wardle".to_owned(),
                target_port: 8443,
                host,
                ca_bundle: String::new(),
            };
            let objects = extension.registration(&registration);
            let [service, api_service] = &objects[..] else { panic!("{objects:?}") };
            assert_eq!(
                service["spec"]["ports"],
                json!([{"name": "https", "port": expected, "targetPort": 8443}]),
                "{service}"
            );
            assert_eq!(api_service["spec"]["service"]["port"], expected, "{api_service}");
        }
    }
}
