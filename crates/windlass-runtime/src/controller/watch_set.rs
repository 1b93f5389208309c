//! Sources that come and go while a controller runs.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
};

use futures_util::{FutureExt as _, future::join_all};
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinSet};
use tracing::Instrument as _;

use crate::{
    cache::{AnyInformer, Caches, Subscription},
    context::{WatchLease, WatchedKinds},
    controller::{
        run::follow_served,
        source::{AnySource, Connection, IsNamespaced, Opened, PendingSubscription, Source, SourceContext},
    },
    manifests::Permission,
};

/// Watches, and other [sources](Source), that a controller adds and removes while it runs: for kinds that it learns
/// about from its objects. Clones share them.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
/// use windlass_runtime::{Result, context::Context, controller::{Action, Controller, Watch, WatchSet}};
///
/// /// A ConfigMap may name a kind of the group `example.com`, whose objects belong to it.
/// fn kind_of(config: &ConfigMap) -> Option<String> {
///     config.data.as_ref()?.get("kind").cloned()
/// }
///
/// async fn follow(config: Arc<ConfigMap>, ctx: Context, watches: WatchSet) -> Result<Action> {
///     if let Some(kind) = kind_of(&config) {
///         let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", &kind));
///         watches.add(kind, Watch::<DynamicObject>::with(resource).owned());
///     }
///     // Other ConfigMaps need theirs.
///     let needed: Vec<String> = ctx.list::<ConfigMap>()?.iter().filter_map(|config| kind_of(config)).collect();
///     watches.retain(|name| needed.iter().any(|kind| kind == name));
///     watches.synced().await?;
///     Ok(Action::done())
/// }
///
/// let watches = WatchSet::new().allow("example.com", "*");
/// let own = watches.clone();
/// let controller =
///     Controller::<ConfigMap>::new("follow", move |config, ctx| follow(config, ctx, own.clone())).source(&watches);
/// ```
///
/// - An added watch makes its kind readable through the [context](crate::context::Context) of the controller, and its
///   objects trigger reconciles. It lists in the background; [`synced`](Self::synced) waits for it. A kind that is not
///   served yet is watched as soon as it is.
/// - A removed watch ends. Its cache is freed and its metrics disappear, unless something else uses the informer:
///   another watch of this or another set with the same kind and scope, a controller's own watch, or a program that has
///   asked [`Caches`] for it.
/// - A watch of a set does not count for the readiness of the process: that one kind cannot be read does not make the
///   operator unready.
/// - In an operator that is [restricted](crate::operator::Operator::namespaces) to namespaces, watches of kinds that are
///   known to be namespaced, or that are [allowed](Self::allow) only there, are restricted, too.
/// - Each process has its own set. With leader election, only the leader reconciles, so the next leader starts with an
///   empty set, and adds its watches in its first reconciles.
#[derive(Clone, Default)]
pub struct WatchSet {
    shared: Arc<Mutex<Shared>>,
    /// Notified when a source has started.
    started: Arc<Notify>,
    allowed: Vec<Allowed>,
}

/// Kinds that may be watched.
#[derive(Clone)]
struct Allowed {
    permission: Permission,
    /// Whether they are watched in the whole cluster, even if the operator is restricted to namespaces.
    cluster: bool,
}

#[derive(Default)]
struct Shared {
    entries: BTreeMap<String, Entry>,
    /// The running controller; weak, so that the set does not keep it alive.
    running: Option<Weak<Running>>,
    /// Whether a controller has used the set.
    connected: bool,
    /// Namespaces that the operator is restricted to; all if empty.
    namespaces: Vec<String>,
    /// Number of sources that were started.
    starts: u64,
}

/// A controller that runs with the set.
struct Running {
    source_context: SourceContext,
    caches: Caches,
    watched_kinds: WatchedKinds,
    namespaces: Vec<String>,
    allowed: Vec<Allowed>,
    /// The span of the controller.
    span: tracing::Span,
}

enum Entry {
    /// Sources that were added before the controller started.
    Waiting(Box<dyn AnySource>),
    /// Being started by the call with this number.
    Starting(u64),
    Active(ActiveSource),
}

/// A source in use; dropping it ends it.
struct ActiveSource {
    informers: Vec<Arc<AnyInformer>>,
    // Fields are dropped in this order: no event may find its kind unreadable.
    _subscriptions: Vec<Subscription>,
    _tasks: JoinSet<()>,
    _set: Option<Opened>,
    _leases: Vec<WatchLease>,
}

impl WatchSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a kind that may be watched, for the generated role: `get`, `list` and `watch` for a resource of a group, or
    /// for `*`. Kinds that are known only at run time cannot be derived from the wiring.
    ///
    /// In an operator that is [restricted](crate::operator::Operator::namespaces) to namespaces, the kind is taken to be
    /// namespaced: the permission and the watches of the set are limited to these namespaces. See
    /// [`allow_cluster`](Self::allow_cluster) for others.
    #[must_use]
    pub fn allow(self, group: &str, resource: &str) -> Self {
        self.allowing(group, resource, false)
    }

    /// Like [`allow`](Self::allow), for a cluster-scoped kind, or for one that is watched in all namespaces even if the
    /// operator is restricted to some.
    #[must_use]
    pub fn allow_cluster(self, group: &str, resource: &str) -> Self {
        self.allowing(group, resource, true)
    }

    fn allowing(mut self, group: &str, resource: &str, cluster: bool) -> Self {
        let permission = Permission::new(group, resource, ["get", "list", "watch"]);
        self.allowed.push(Allowed { permission, cluster });
        self
    }

    /// Adds a source under a name; does nothing if the name is taken. Returns whether it was added.
    ///
    /// Must be called within a tokio runtime. A source that is added before the controller works starts with it.
    pub fn add(&self, name: impl Into<String>, source: impl Into<Source>) -> bool {
        let (name, source) = (name.into(), source.into().into_any());
        let running = {
            let mut shared = self.shared.lock();
            if shared.entries.contains_key(&name) {
                return false;
            }
            match shared.running.as_ref().and_then(Weak::upgrade) {
                Some(running) => {
                    let number = shared.next_start();
                    shared.entries.insert(name.clone(), Entry::Starting(number));
                    (running, source, number)
                }
                None => {
                    shared.entries.insert(name, Entry::Waiting(source));
                    return true;
                }
            }
        };
        let (running, source, number) = running;
        // Not under the lock: subscribing calls handlers, and these may add sources.
        Starting { set: self, name, number, placed: false }.run(&running, source);
        true
    }

    /// Removes a source. Returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        // Dropped after the lock, as handlers are dropped with it.
        let removed = self.shared.lock().entries.remove(name);
        removed.is_some()
    }

    /// Removes the sources whose names do not satisfy a condition.
    pub fn retain(&self, mut keeps: impl FnMut(&str) -> bool) {
        let removed: Vec<Entry> = {
            let mut shared = self.shared.lock();
            let names: Vec<String> = shared.entries.keys().filter(|name| !keeps(name)).cloned().collect();
            names.iter().filter_map(|name| shared.entries.remove(name)).collect()
        };
        drop(removed);
    }

    /// Returns the names of all sources.
    pub fn names(&self) -> Vec<String> {
        self.shared.lock().entries.keys().cloned().collect()
    }

    /// Resolves when every watch that the set has now is synced, or its kind is known not to be served. Resolves at
    /// once for sources that wait for the controller.
    ///
    /// If the API server rejects lists of some kinds, for example because a role is missing, this is an error that names
    /// them, as soon as the others are synced. They are listed as soon as the API server permits it. Failures that pass, such
    /// as an overloaded API server, are waited for.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        let informers = loop {
            let started = self.started.notified();
            tokio::pin!(started);
            // Before the check, so that no notification is missed.
            started.as_mut().enable();
            if let Some(informers) = self.informers() {
                break informers;
            }
            started.await;
        };
        let problems = join_all(informers.iter().map(|(name, informer)| async move {
            let problem = informer.settled().await?;
            let ApiResource { plural, group, .. } = informer.resource();
            let resource = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
            Some(format!("{resource} (watch {name:?}): {problem}"))
        }));
        let problems: Vec<String> = problems.await.into_iter().flatten().collect();
        if problems.is_empty() { Ok(()) } else { Err(NotSynced { problems }) }
    }

    /// Returns the informers of all watches; `None` while one is being started.
    fn informers(&self) -> Option<Vec<(String, Arc<AnyInformer>)>> {
        let shared = self.shared.lock();
        let mut informers = Vec::new();
        for (name, entry) in &shared.entries {
            match entry {
                Entry::Starting(_) => return None,
                Entry::Waiting(_) => {}
                Entry::Active(active) => {
                    informers.extend(active.informers.iter().map(|informer| (name.clone(), informer.clone())));
                }
            }
        }
        Some(informers)
    }

    /// Replaces the placeholder of a start, or removes it if the start has failed. Does nothing if the source was removed in
    /// the meantime: the name may be that of another one now.
    fn put(&self, name: &str, number: u64, active: Option<ActiveSource>) {
        let mut shared = self.shared.lock();
        let is_ours = matches!(shared.entries.get(name), Some(Entry::Starting(other)) if *other == number);
        let unused = match active {
            Some(active) if is_ours => shared.entries.insert(name.to_owned(), Entry::Active(active)),
            None if is_ours => shared.entries.remove(name),
            active => active.map(Entry::Active),
        };
        drop(shared);
        // Dropped after the lock, as handlers are dropped with it.
        drop(unused);
        self.started.notify_waiters();
    }

    /// Starts the sources that have waited for the controller.
    fn start(&self, running: &Arc<Running>) {
        let waiting: Vec<(String, u64, Box<dyn AnySource>)> = {
            let mut shared = self.shared.lock();
            shared.running = Some(Arc::downgrade(running));
            let names: Vec<String> = shared.entries.keys().cloned().collect();
            let mut waiting = Vec::new();
            for name in names {
                let number = shared.next_start();
                match shared.entries.insert(name.clone(), Entry::Starting(number)) {
                    Some(Entry::Waiting(source)) => waiting.push((name, number, source)),
                    Some(active) => drop(shared.entries.insert(name, active)),
                    None => {}
                }
            }
            waiting
        };
        for (name, number, source) in waiting {
            Starting { set: self, name, number, placed: false }.run(running, source);
        }
    }
}

impl Shared {
    /// Returns a number that distinguishes a start from others under the same name.
    fn next_start(&mut self) -> u64 {
        self.starts += 1;
        self.starts
    }
}

/// A source that is being started. Its placeholder does not remain if that panics.
struct Starting<'a> {
    set: &'a WatchSet,
    name: String,
    number: u64,
    placed: bool,
}

impl Starting<'_> {
    fn run(mut self, running: &Running, source: Box<dyn AnySource>) {
        let active = running.start(source);
        self.placed = true;
        self.set.put(&self.name, self.number, Some(active));
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if !self.placed {
            self.set.put(&self.name, self.number, None);
        }
    }
}

/// Error of [`WatchSet::synced`]: the API server rejects lists of some kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to list {}", problems.join("; "))]
#[non_exhaustive]
pub struct NotSynced {
    /// The kinds, with the names of their watches and the responses of the API server.
    pub problems: Vec<String>,
}

impl Running {
    /// Returns whether a kind that is known only at run time is taken to be namespaced.
    fn is_namespaced(&self, resource: &ApiResource) -> bool {
        let covers = |allowed: &&Allowed| {
            let Permission { group, resource: allowed, .. } = &allowed.permission;
            *group == resource.group && (*allowed == resource.plural || allowed == "*")
        };
        let covering: Vec<_> = self.allowed.iter().filter(covers).collect();
        !covering.is_empty() && covering.iter().all(|allowed| !allowed.cluster)
    }

    fn start(&self, mut source: Box<dyn AnySource>) -> ActiveSource {
        source.restrict_to(&self.namespaces, &|resource| self.is_namespaced(resource));
        let leases = source.open_leased(&self.caches, &self.watched_kinds);
        let mut active = ActiveSource { _leases: leases, ..ActiveSource::empty() };
        match source.connect(&self.source_context) {
            Connection::Task(task) => self.spawn(&mut active, task),
            Connection::Set(opening) => active._set = Some(self.span.in_scope(opening)),
            Connection::Watch(subscriptions) => {
                active.informers = subscriptions.iter().map(PendingSubscription::informer).collect();
                for informer in active.informers.clone() {
                    self.spawn(&mut active, follow_served(informer, self.source_context.resync.clone()));
                }
                active._subscriptions = subscriptions.into_iter().map(PendingSubscription::subscribe).collect();
            }
        }
        active
    }

    /// Runs a task of a source, whose panic ends the controller.
    fn spawn(&self, active: &mut ActiveSource, task: impl Future<Output = ()> + Send + 'static) {
        active._tasks.spawn(self.source_context.panics.catch(task).instrument(self.span.clone()).boxed());
    }
}

impl ActiveSource {
    fn empty() -> Self {
        Self {
            informers: Vec::new(),
            _subscriptions: Vec::new(),
            _tasks: JoinSet::new(),
            _set: None,
            _leases: Vec::new(),
        }
    }
}

impl fmt::Debug for WatchSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchSet").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl From<&WatchSet> for Source {
    fn from(set: &WatchSet) -> Self {
        Self::new(set.clone())
    }
}

impl From<WatchSet> for Source {
    fn from(set: WatchSet) -> Self {
        Self::new(set)
    }
}

impl AnySource for WatchSet {
    fn permissions(&self) -> Vec<Permission> {
        self.allowed.iter().map(|allowed| allowed.permission.clone()).collect()
    }

    fn restrict_to(&mut self, namespaces: &[String], _: IsNamespaced<'_>) {
        if namespaces.is_empty() {
            return;
        }
        self.shared.lock().namespaces = namespaces.to_vec();
        let narrow = |Allowed { permission, cluster }: Allowed| {
            let is_narrow = cluster || permission.namespace.is_some();
            let namespaces = if is_narrow { &[] } else { namespaces };
            let mut narrowed: Vec<_> =
                namespaces.iter().map(|namespace| permission.clone().in_namespace(namespace)).collect();
            if narrowed.is_empty() {
                narrowed.push(permission);
            }
            narrowed.into_iter().map(move |permission| Allowed { permission, cluster })
        };
        self.allowed = std::mem::take(&mut self.allowed).into_iter().flat_map(narrow).collect();
    }

    fn connect(self: Box<Self>, source_context: &SourceContext) -> Connection {
        let context = source_context.context.clone();
        let namespaces = self.shared.lock().namespaces.clone();
        let source_context = source_context.clone();
        if std::mem::replace(&mut self.shared.lock().connected, true) {
            tracing::warn!("a set of watches is used by several controllers; only the last one gets its events");
        }
        Connection::Set(Box::new(move || {
            let running = Arc::new(Running {
                namespaces,
                allowed: self.allowed.clone(),
                source_context,
                caches: context.caches().clone(),
                watched_kinds: context.watched_kinds().clone(),
                span: tracing::Span::current(),
            });
            self.start(&running);
            Box::new(Ending { set: *self, _running: running })
        }))
    }
}

/// Ends the sources with the controller.
struct Ending {
    set: WatchSet,
    _running: Arc<Running>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (entries, running) = {
            let mut shared = self.set.shared.lock();
            (std::mem::take(&mut shared.entries), shared.running.take())
        };
        drop((entries, running));
    }
}

#[cfg(test)]
mod tests;
