//! Several clusters: one process that reconciles objects of many clusters, which come and go while it runs.
//!
//! An [`Operator`] that is given [`Clusters`] runs in its home cluster, and builds another operator for each cluster
//! that it learns about: from kubeconfigs in [Secrets](Clusters::secrets) of the home cluster, in a
//! [directory](Clusters::directory), from another [source](ClusterProvider), or from [code](Clusters::set).
//!
//! ```no_run
//! use std::{process::ExitCode, sync::Arc};
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, ResourceExt as _};
//! use windlass_runtime::{
//!     clusters::{Cluster, Clusters},
//!     controller::{Action, Controller},
//!     operator::Operator,
//! };
//!
//! /// Reports the ConfigMaps of a cluster.
//! fn member(cluster: &Cluster) -> Operator {
//!     let name = cluster.name().to_owned();
//!     let controller = Controller::<ConfigMap>::new("maps", move |map: Arc<ConfigMap>, _ctx| {
//!         println!("{name}: {}", map.name_any());
//!         async { Ok(Action::done()) }
//!     });
//!     Operator::new("fleet-operator").controller(controller)
//! }
//!
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     let clusters = Clusters::new(member).secrets("fleet-system", "windlass.dev/cluster=true");
//!     Operator::new("fleet-operator").clusters(clusters).main().await
//! }
//! ```
//!
//! - **Each cluster is separate**: it has its own client, caches, queues, events and leader election. The replicas of the
//!   operator elect a leader per cluster, by a lease in that cluster, or share its keys with `--shards`.
//! - **A cluster that fails does not stop the others.** While its API server cannot be reached, its watches and its
//!   election wait with backoff. If its operator fails, loses its lease or panics, it is started again after a delay.
//! - **A cluster that is removed is left cleanly**: running reconciles finish within the grace period, then its watches,
//!   workers and caches end, and its lease is released. A cluster whose kubeconfig changes is left and joined again.
//! - **Metrics** of a cluster have the label `cluster`, and `/debug/state` shows its operator. Webhooks, probes and servers
//!   belong to the home cluster: webhooks of the operator that is built for another cluster are not served.
//! - **Permissions** in a cluster are those of its kubeconfig. The roles that it needs are the
//!   [manifests](Operator::manifests) of the operator that is built for it.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    manifests::Permission,
    operator::{DebugState, Operator},
};

mod directory;
mod life;
mod provider;
mod run;
mod secrets;

use directory::Directory;
pub use provider::{ClusterAccess, ClusterProvider, ProvidedClusters};
pub(crate) use run::{Home, run};
pub use secrets::SecretClusters;

/// Key of the kubeconfig in a Secret, and the extension of files in a directory.
const KUBECONFIG: &str = "kubeconfig";

/// The clusters of an operator, and the function that builds an operator for each. See [the module](self).
pub struct Clusters {
    name: Option<Arc<str>>,
    set: ClusterSet,
    build: Build,
    providers: Vec<Box<dyn ClusterProvider>>,
    lease_namespace: Option<String>,
}

type Build = Arc<dyn Fn(&Cluster) -> Operator + Send + Sync>;

/// A cluster that an operator is built for.
#[derive(Clone)]
pub struct Cluster {
    name: Arc<str>,
    client: Client,
    home: Client,
}

/// The clusters that an operator should work in. A cheap handle: clones share them.
#[derive(Clone, Default)]
pub struct ClusterSet {
    wanted: Arc<watch::Sender<Wanted>>,
    states: Arc<Mutex<BTreeMap<Arc<str>, ClusterState>>>,
    /// Views of the operators of the clusters, for `/debug/state`.
    operators: Arc<Mutex<BTreeMap<Arc<str>, DebugState>>>,
}

#[derive(Default)]
struct Wanted {
    members: BTreeMap<Arc<str>, Member>,
    /// Clusters of other sources whose names are taken, the oldest first.
    shadowed: Vec<(Arc<str>, Member)>,
    /// Number of changes, which distinguishes two members of the same name.
    changes: u64,
}

#[derive(Clone)]
struct Member {
    access: ClusterAccess,
    /// The provider that has added it, by number; `None` for code.
    provider: Option<usize>,
    version: u64,
}

/// State of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterState {
    /// Its operator runs.
    Running,
    /// The operator of the cluster failed, or its kubeconfig is unusable; retried after a delay.
    Failed(String),
    /// The cluster is being removed.
    Leaving,
}

impl Clusters {
    /// Creates a set without clusters. The function is called for each cluster, and again when the operator of a cluster is
    /// started again.
    pub fn new(build: impl Fn(&Cluster) -> Operator + Send + Sync + 'static) -> Self {
        let build = Arc::new(build);
        Self { name: None, set: ClusterSet::default(), build, providers: Vec::new(), lease_namespace: None }
    }

    /// Sets the name of the set, which an operator with several sets needs: all but one must have a name, which must be a
    /// DNS label. It is part of the names of leases (`foo-operator-edge`), of the label `cluster` of metrics (`edge/east`),
    /// and of the view in `/debug/state` (`clusters/edge`).
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the set, to add and remove clusters by code.
    pub fn set(&self) -> ClusterSet {
        self.set.clone()
    }

    /// Adds a cluster for each Secret of a namespace of the home cluster with these labels: its name is that of the Secret,
    /// and its kubeconfig is the value of the key `kubeconfig`. The generated role allows reading the Secrets. See
    /// [`SecretClusters`] for other keys and names, such as those of Cluster API.
    #[must_use]
    pub fn secrets(self, namespace: &str, labels: &str) -> Self {
        self.provider(SecretClusters::new(namespace, labels))
    }

    /// Adds a cluster for each file `NAME.kubeconfig` in a directory, which is read every ten seconds. A file that cannot be
    /// read is reported, and its cluster stays as it is.
    #[must_use]
    pub fn directory(self, path: impl Into<PathBuf>) -> Self {
        self.provider(Directory::new(path.into()))
    }

    /// Adds the clusters of a source.
    #[must_use]
    pub fn provider(mut self, provider: impl ClusterProvider) -> Self {
        self.providers.push(Box::new(provider));
        self
    }

    /// Sets the namespace of the leases in the clusters; that of the home cluster's lease by default. It must exist.
    #[must_use]
    pub fn lease_namespace(mut self, namespace: &str) -> Self {
        self.lease_namespace = Some(namespace.to_owned());
        self
    }

    /// Returns the permissions in the home cluster.
    pub(crate) fn permissions(&self) -> Vec<Permission> {
        self.providers.iter().flat_map(|provider| provider.permissions()).collect()
    }

    /// Returns a name that two of these sets have; an empty one if two have none.
    pub(crate) fn shared_name(sets: &[Self]) -> Option<Arc<str>> {
        let mut seen = HashSet::new();
        let shared = sets.iter().find(|set| !seen.insert(set.name.clone()))?;
        Some(shared.name.clone().unwrap_or_default())
    }
}

impl Cluster {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client of the cluster.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the client of the home cluster.
    pub fn home(&self) -> Client {
        self.home.clone()
    }
}

impl ClusterSet {
    /// Adds a cluster, or replaces one of the same name, which is left first.
    pub fn add(&self, name: &str, client: Client) {
        self.put(name, None, ClusterAccess::unversioned(client));
    }

    /// Adds a cluster with the text of a kubeconfig, whose current context is used.
    pub fn add_kubeconfig(&self, name: &str, kubeconfig: &str) {
        self.put(name, None, ClusterAccess::kubeconfig(kubeconfig));
    }

    /// Removes a cluster. Returns whether there was one. It is left in the background; see [`state`](Self::state). If another
    /// source has a cluster of this name, that one is joined instead.
    pub fn remove(&self, name: &str) -> bool {
        let mut was_shadowed = false;
        let left = self.wanted.send_if_modified(|wanted| {
            let before = wanted.shadowed.len();
            wanted.shadowed.retain(|(shadowed, member)| &**shadowed != name || member.provider.is_some());
            was_shadowed = wanted.shadowed.len() < before;
            !was_shadowed && wanted.leave(name)
        });
        was_shadowed || left
    }

    /// Returns the names of all clusters, except for clusters that are being stopped.
    pub fn names(&self) -> Vec<String> {
        self.wanted.borrow().members.keys().map(ToString::to_string).collect()
    }

    /// Returns the state of a cluster; `None` if it has not started or was left.
    pub fn state(&self, name: &str) -> Option<ClusterState> {
        self.states.lock().get(name).cloned()
    }

    fn put(&self, name: &str, provider: Option<usize>, access: ClusterAccess) {
        self.wanted.send_if_modified(|wanted| {
            if let Some(present) = wanted.members.get(name) {
                if present.provider != provider {
                    wanted.shadow(name, provider, access);
                    return false;
                }
                if present.access.is_same(&access) {
                    return false;
                }
            }
            wanted.changes += 1;
            let member = Member { access, provider, version: wanted.changes };
            wanted.members.insert(name.into(), member);
            true
        });
    }

    /// Sets all clusters of a provider.
    fn provide(&self, provider: usize, members: BTreeMap<String, ClusterAccess>) {
        self.wanted.send_if_modified(|wanted| {
            let is_gone =
                |name: &str, member: &Member| member.provider == Some(provider) && !members.contains_key(name);
            wanted.shadowed.retain(|(name, member)| !is_gone(name, member));
            let gone: Vec<Arc<str>> = wanted
                .members
                .iter()
                .filter(|(name, member)| is_gone(name, member))
                .map(|(name, _)| name.clone())
                .collect();
            for name in &gone {
                wanted.leave(name);
            }
            !gone.is_empty()
        });
        for (name, access) in members {
            self.put(&name, Some(provider), access);
        }
    }

    fn set_state(&self, name: &Arc<str>, state: Option<ClusterState>) {
        let mut states = self.states.lock();
        match state {
            Some(state) => drop(states.insert(name.clone(), state)),
            None => drop(states.remove(name)),
        }
    }

    fn set_operator(&self, name: &Arc<str>, operator: Option<DebugState>) {
        let mut operators = self.operators.lock();
        match operator {
            Some(operator) => drop(operators.insert(name.clone(), operator)),
            None => drop(operators.remove(name)),
        }
    }

    /// Returns the view of `/debug/state`.
    fn view(&self) -> Value {
        let states = self.states.lock().clone();
        let show = |(name, state): (Arc<str>, ClusterState)| {
            let mut view = match state {
                ClusterState::Failed(error) => json!({ "name": &*name, "state": "failed", "error": error }),
                ClusterState::Running => json!({ "name": &*name, "state": "running" }),
                ClusterState::Leaving => json!({ "name": &*name, "state": "leaving" }),
            };
            let operator = self.operators.lock().get(&name).cloned();
            if let Some(operator) = operator {
                view["operator"] = operator.show();
            }
            view
        };
        states.into_iter().map(show).collect()
    }
}

impl Wanted {
    /// Keeps a cluster whose name another source has taken.
    fn shadow(&mut self, name: &str, provider: Option<usize>, access: ClusterAccess) {
        let member = Member { access, provider, version: 0 };
        let known = |(shadowed, member): &&mut (Arc<str>, Member)| &**shadowed == name && member.provider == provider;
        match self.shadowed.iter_mut().find(known) {
            Some((_, known)) => *known = member,
            None => {
                tracing::warn!(
                    cluster = name,
                    "two sources have a cluster of this name; using the first until it is removed"
                );
                self.shadowed.push((name.into(), member));
            }
        }
    }

    /// Removes a cluster, for which the next one of this name takes over. Returns whether there was one.
    fn leave(&mut self, name: &str) -> bool {
        let Some(_) = self.members.remove(name) else { return false };
        if let Some(place) = self.shadowed.iter().position(|(shadowed, _)| &**shadowed == name) {
            let (name, member) = self.shadowed.remove(place);
            self.changes += 1;
            self.members.insert(name, Member { version: self.changes, ..member });
        }
        true
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClusterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterSet").field("names", &self.names()).finish_non_exhaustive()
    }
}
