//! Role bindings of a new user.

use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{ClusterRole, Role},
};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::identity::Identity;
use crate::failure::ErrorWithHint;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles to bind, and where they apply.
#[derive(Clone, Debug)]
pub(super) struct RolesToBind<'a> {
    pub(super) cluster_roles: &'a [String],
    /// Roles of the namespace.
    pub(super) roles: &'a [String],
    /// `None` for the whole cluster.
    pub(super) namespace: Option<&'a str>,
}

impl RolesToBind<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.cluster_roles.is_empty() && self.roles.is_empty()
    }

    /// The bindings of an identity.
    pub(super) fn manifests(&self, identity: &Identity) -> Vec<Value> {
        let kinds = [("ClusterRole", self.cluster_roles), ("Role", self.roles)];
        let roles = kinds.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name)));
        roles.map(|(kind, name)| self.binding(identity, kind, name)).collect()
    }

    fn binding(&self, identity: &Identity, role_kind: &str, role: &str) -> Value {
        // Names of roles may contain colons, and so may those of bindings.
        let mut metadata = json!({"name": format!("{}-{role}", identity.binding_prefix())});
        if let Some(namespace) = self.namespace {
            metadata["namespace"] = namespace.into();
        }
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": if self.namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" },
            "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
            "subjects": [identity.subject()],
        })
    }

    /// Fails if the namespace or a role does not exist: a binding to a missing role would be accepted, and grant nothing.
    pub(super) async fn check(&self, client: &Client) -> anyhow::Result<()> {
        if let Some(namespace) = self.namespace {
            check_namespace(client, namespace).await?;
        }
        for name in self.cluster_roles {
            let found = Api::<ClusterRole>::all(client.clone()).get_opt(name).await;
            exists(found, &format!("ClusterRole {name}"), || "list them with `kubectl get clusterroles`".to_owned())?;
        }
        for name in self.roles {
            let namespace = self.namespace.unwrap_or_default();
            let found = Api::<Role>::namespaced(client.clone(), namespace).get_opt(name).await;
            let hint = || format!("list them with `kubectl get roles -n {namespace}`, or use --cluster-role");
            exists(found, &format!("Role {namespace}/{name}"), hint)?;
        }
        Ok(())
    }
}

/// Fails if a namespace does not exist.
pub(super) async fn check_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let found = Api::<Namespace>::all(client.clone()).get_opt(name).await;
    exists(found, &format!("namespace {name}"), || format!("create it with `kubectl create namespace {name}`"))
}

fn exists<K>(found: Result<Option<K>, kube::Error>, what: &str, hint: impl Fn() -> String) -> anyhow::Result<()> {
    match found {
        Ok(Some(_)) => Ok(()),
        // A user who may write bindings need not be able to read roles: the server decides.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Ok(None) => Err(ErrorWithHint { message: format!("{what} does not exist"), hint: hint().into() }.into()),
        Err(error) => Err(anyhow::Error::new(error).context(format!("failed to read {what}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_bound_in_the_namespace_or_in_the_whole_cluster() {
        let alice = Identity::user("alice", &[]).unwrap();
        let (edit, view) = (["edit".to_owned()], ["mine".to_owned()]);
        let roles = RolesToBind { cluster_roles: &edit, roles: &view, namespace: Some("dev") };
        let manifests = roles.manifests(&alice);
        let text = |manifest: &Value| {
            let of = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
            let names = ["/kind", "/metadata/namespace", "/metadata/name", "/roleRef/kind", "/roleRef/name"];
            names.map(of).join(" ")
        };
        assert_eq!(
            manifests.iter().map(text).collect::<Vec<_>>(),
            ["RoleBinding dev alice-edit ClusterRole edit", "RoleBinding dev alice-mine Role mine"]
        );
        let robot = Identity::service_account("ci/robot").unwrap();
        let roles = RolesToBind { cluster_roles: &edit, roles: &[], namespace: None };
        let manifest = roles.manifests(&robot).remove(0);
        assert_eq!(text(&manifest), "ClusterRoleBinding - ci-robot-edit ClusterRole edit");
        assert_eq!(manifest["subjects"], json!([{"kind": "ServiceAccount", "namespace": "ci", "name": "robot"}]));
    }
}
