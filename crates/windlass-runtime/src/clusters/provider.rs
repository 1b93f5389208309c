//! Sources of clusters.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use kube::Client;

use super::ClusterSet;
use crate::{cache::Caches, manifests::Permission};

/// A source of clusters, such as the API of a cloud.
///
/// ```
/// use std::time::Duration;
/// use futures_util::future::BoxFuture;
/// use windlass_runtime::clusters::{ClusterAccess, ClusterProvider, ProvidedClusters};
///
/// /// Clusters of an inventory, by name, with their kubeconfigs.
/// struct Inventory;
///
/// async fn fetch() -> Result<Vec<(String, String)>, std::io::Error> {
///     Ok(Vec::new())
/// }
///
/// impl ClusterProvider for Inventory {
///     fn run(self: Box<Self>, clusters: ProvidedClusters) -> BoxFuture<'static, ()> {
///         Box::pin(async move {
///             loop {
///                 // While the inventory cannot be read, the clusters stay as they are.
///                 if let Ok(all) = fetch().await {
///                     let access = |text: String| ClusterAccess::untrusted_kubeconfig(&text);
///                     clusters.replace(all.into_iter().map(|(name, text)| (name, access(text))));
///                 }
///                 tokio::time::sleep(Duration::from_secs(30)).await;
///             }
///         })
///     }
/// }
/// ```
pub trait ClusterProvider: Send + 'static {
    /// Returns the permissions that it needs in the home cluster, for the generated role.
    fn permissions(&self) -> Vec<Permission> {
        Vec::new()
    }

    /// Keeps the clusters up to date. It is dropped when the operator stops. If it returns or panics, the clusters stay as they
    /// are.
    fn run(self: Box<Self>, clusters: ProvidedClusters) -> BoxFuture<'static, ()>;
}

/// The clusters of a [provider](ClusterProvider), and its home cluster.
pub struct ProvidedClusters {
    pub(super) set: ClusterSet,
    /// Number of the provider.
    pub(super) number: usize,
    pub(super) client: Client,
    pub(super) caches: Caches,
}

impl ProvidedClusters {
    /// Sets all clusters of the provider, by name. Clusters that are not among them are left, and those whose access has
    /// changed are joined again. A cluster whose name another source has taken waits until that one removes it.
    pub fn replace(&self, clusters: impl IntoIterator<Item = (String, ClusterAccess)>) {
        self.set.provide(self.number, clusters.into_iter().collect::<BTreeMap<_, _>>());
    }

    /// Returns the client of the home cluster.
    pub fn home(&self) -> Client {
        self.client.clone()
    }

    /// Returns the caches of the home cluster.
    pub fn caches(&self) -> &Caches {
        &self.caches
    }
}

impl fmt::Debug for ProvidedClusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvidedClusters").finish_non_exhaustive()
    }
}

/// Connection to a cluster.
#[derive(Clone)]
pub struct ClusterAccess(pub(super) Access);

#[derive(Clone)]
pub(super) enum Access {
    Client {
        client: Client,
        version: Option<Arc<str>>,
    },
    Kubeconfig {
        text: Arc<str>,
        /// Whether it may name commands and files of this machine.
        is_local: bool,
    },
}

impl ClusterAccess {
    /// Connects with a client. The cluster is joined again when the version changes.
    pub fn client(version: &str, client: Client) -> Self {
        Self(Access::Client { client, version: Some(version.into()) })
    }

    /// Connects with a client that differs from all others.
    pub(super) fn unversioned(client: Client) -> Self {
        Self(Access::Client { client, version: None })
    }

    /// Connects with the current context of a kubeconfig, which may name commands and files of this machine.
    pub fn kubeconfig(text: &str) -> Self {
        Self(Access::Kubeconfig { text: text.into(), is_local: true })
    }

    /// Connects with the current context of a kubeconfig of users who should not control this process. It must contain its
    /// credentials: one that runs a command or names files is rejected.
    pub fn untrusted_kubeconfig(text: &str) -> Self {
        Self(Access::Kubeconfig { text: text.into(), is_local: false })
    }

    /// Returns whether both certainly lead to the same cluster, with the same credentials.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Access::Kubeconfig { text, is_local }, Access::Kubeconfig { text: other, is_local: also }) => {
                text == other && is_local == also
            }
            (Access::Client { version: Some(version), .. }, Access::Client { version: Some(other), .. }) => {
                version == other
            }
            _ => false,
        }
    }
}

/// Does not show credentials.
impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_removes_only_its_own_clusters() {
        let set = ClusterSet::default();
        set.add_kubeconfig("code", "x");
        let members =
            |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), ClusterAccess::kubeconfig("y"))).collect();
        set.provide(0, members(&["a", "b", "code"]));
        set.provide(1, members(&["c"]));
        assert_eq!(set.names(), ["a", "b", "c", "code"]);
        set.provide(0, members(&["b"]));
        assert_eq!(set.names(), ["b", "c", "code"]);
        assert!(set.remove("c") && !set.remove("c"));
    }

    #[test]
    fn a_cluster_whose_name_was_taken_takes_over_when_the_other_is_removed() {
        let set = ClusterSet::default();
        let members = |text: &str| [("a".to_owned(), ClusterAccess::kubeconfig(text))].into();
        let used = || match set.wanted.borrow().members.get("a").map(|member| (member.access.0.clone(), member.version))
        {
            Some((Access::Kubeconfig { text, .. }, version)) => Some((text.to_string(), version)),
            _ => None,
        };
        let of = |text: &str, version| Some((text.to_owned(), version));
        set.provide(0, members("first"));
        set.provide(1, members("second"));
        set.add_kubeconfig("a", "code");
        assert_eq!(used(), of("first", 1));
        // The shadowed one changes.
        set.provide(1, members("second again"));
        set.provide(0, BTreeMap::new());
        assert_eq!(used(), of("second again", 2));
        set.provide(0, members("first"));
        // Code removes its own cluster, not that of a provider.
        assert!(set.remove("a"));
        assert_eq!(used(), of("second again", 2));
        set.provide(1, BTreeMap::new());
        assert_eq!(used(), of("first", 3));
        set.provide(0, BTreeMap::new());
        assert_eq!((used(), set.names()), (None, Vec::new()));
        assert!(!set.remove("a"));
    }

    #[tokio::test]
    async fn clients_are_the_same_if_their_versions_are() {
        let client = || {
            let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
                std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
            });
            Client::new(service, "default")
        };
        let first = ClusterAccess::client("1", client());
        assert!(first.is_same(&ClusterAccess::client("1", client())));
        assert!(!first.is_same(&ClusterAccess::client("2", client())));
        let unknown = ClusterAccess::unversioned(client());
        assert!(!unknown.is_same(&unknown.clone()) && !first.is_same(&ClusterAccess::kubeconfig("1")));
        let text = ClusterAccess::kubeconfig("x");
        assert!(text.is_same(&text.clone()) && !text.is_same(&ClusterAccess::untrusted_kubeconfig("x")));
    }
}
