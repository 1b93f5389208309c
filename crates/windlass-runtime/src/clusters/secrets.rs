//! Clusters of Secrets.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;

use super::{ClusterAccess, ClusterProvider, KUBECONFIG, ProvidedClusters};
use crate::{manifests::Permission, scope::Scope};

/// A cluster for each Secret of a namespace of the home cluster with some labels. Its kubeconfig must contain its
/// credentials: one that runs a command or names files is rejected, as users who may write Secrets should not control
/// this process.
///
/// ```
/// use windlass_runtime::clusters::{Clusters, SecretClusters};
///
/// # fn example(clusters: Clusters) -> Clusters {
/// // Those of Cluster API.
/// let name = "cluster.x-k8s.io/cluster-name";
/// clusters.provider(SecretClusters::new("fleet", name).key("value").name_label(name))
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SecretClusters {
    namespace: String,
    labels: String,
    key: String,
    name_label: Option<String>,
}

impl SecretClusters {
    /// Selects Secrets by a label selector. The name of a cluster is that of its Secret, and its kubeconfig is the value of the
    /// key `kubeconfig`.
    pub fn new(namespace: &str, labels: &str) -> Self {
        let (namespace, labels) = (namespace.to_owned(), labels.to_owned());
        Self { namespace, labels, key: KUBECONFIG.to_owned(), name_label: None }
    }

    /// Sets the key of the kubeconfig in a Secret.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = key.to_owned();
        self
    }

    /// Takes the name of a cluster from a label of its Secret. Secrets without the label are skipped; of several with the same
    /// name, the first by name is used.
    #[must_use]
    pub fn name_label(mut self, label: &str) -> Self {
        self.name_label = Some(label.to_owned());
        self
    }

    /// Returns the clusters of Secrets by name.
    fn members(&self, mut secrets: Vec<Arc<Secret>>) -> BTreeMap<String, ClusterAccess> {
        secrets.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut members = BTreeMap::new();
        for secret in secrets {
            if let Some((name, access)) = self.member(&secret) {
                members.entry(name).or_insert(access);
            }
        }
        members
    }

    /// Returns the name and access of a Secret.
    fn member(&self, secret: &Secret) -> Option<(String, ClusterAccess)> {
        let secret_name = secret.metadata.name.as_ref()?;
        let name = match &self.name_label {
            Some(label) => secret.metadata.labels.as_ref()?.get(label)?,
            None => secret_name,
        };
        let value = secret.data.as_ref().and_then(|data| data.get(&self.key));
        let text = value.and_then(|value| std::str::from_utf8(&value.0).ok());
        let Some(text) = text else {
            tracing::warn!(secret = secret_name, key = self.key, "the Secret has no text under this key; skipping it");
            return None;
        };
        Some((name.clone(), ClusterAccess::untrusted_kubeconfig(text)))
    }
}

impl ClusterProvider for SecretClusters {
    fn permissions(&self) -> Vec<Permission> {
        vec![Permission::new("", "secrets", ["get", "list", "watch"]).in_namespace(&self.namespace)]
    }

    fn run(self: Box<Self>, clusters: ProvidedClusters) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let scope = Scope::namespace(&self.namespace).labels(&self.labels);
            let informer = clusters.caches().informer::<Secret>(&scope);
            let changed = Arc::new(tokio::sync::Notify::new());
            let notified = changed.clone();
            let _subscription = informer.subscribe(move |_| notified.notify_one());
            informer.synced().await;
            loop {
                clusters.replace(self.members(informer.list()));
                changed.notified().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::provider::Access;

    #[test]
    fn the_key_and_the_name_are_configurable() {
        let secret = |name: &str, label: Option<&str>, key: &str| -> Arc<Secret> {
            let labels = label.map(|label| serde_json::json!({ "cluster": label }));
            let secret = serde_json::json!({
                "metadata": { "name": name, "labels": labels },
                // The name of the Secret.
                "data": { key: base64::Engine::encode(&base64::engine::general_purpose::STANDARD, name) },
            });
            Arc::new(serde_json::from_value(secret).unwrap())
        };
        let members = |clusters: &SecretClusters, secrets: Vec<Arc<Secret>>| -> Vec<String> {
            let text = |access: ClusterAccess| match access.0 {
                Access::Kubeconfig { text, is_local: false } => text.to_string(),
                _ => panic!("not an untrusted kubeconfig"),
            };
            clusters.members(secrets).into_iter().map(|(name, access)| format!("{name}={}", text(access))).collect()
        };
        let plain = SecretClusters::new("fleet", "");
        assert_eq!(members(&plain, vec![secret("a", None, "kubeconfig"), secret("b", None, "value")]), ["a=a"]);
        let labelled = SecretClusters::new("fleet", "").key("value").name_label("cluster");
        let secrets = vec![
            secret("d", Some("east"), "value"),
            secret("c", Some("east"), "value"),
            secret("b", None, "value"),
            secret("a", Some("west"), "kubeconfig"),
        ];
        assert_eq!(members(&labelled, secrets), ["east=c"]);
    }
}
