//! All informers of a process, and its own writes.

use std::{
    any::TypeId,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use futures_util::FutureExt as _;
use hashbrown::HashMap;
use kube::{
    Client,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
};
use parking_lot::RwLock;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};
use tracing::Instrument;

mod lease;

pub(crate) use lease::InformerLease;

use super::{
    Informer, Settings,
    any_informer::{AnyInformer, WatchTarget},
    metrics::{CacheMetrics, InformerMetrics},
};
use crate::{
    any_object::AnyObject,
    key::ObjectKey,
    metrics::Metrics,
    object::{Object, is_final, resource_of},
    scope::Scope,
    watch::{self as reflector, Form, UnreadableObject, WatchMetrics, WatchOptions},
};

/// Capacity of the channel from the watch to the store: large enough that neither waits for each change.
const CHANGES: usize = 128;

/// Maximum number of unreadable objects in the status of an informer.
const SHOWN_UNREADABLE: usize = 100;

/// All informers of a process. A cheap handle: clones share them.
///
/// There is one watch per Rust type, resource and [`Scope`], regardless of the number of users. It starts with the
/// first request for it, which must be within a tokio runtime, and ends when it is [removed](Caches::remove) or the
/// last handle is dropped. Informers that only [sets of watches](crate::controller::WatchSet) use end with these.
///
/// ```no_run
/// # async fn example(client: kube::Client) {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_runtime::{cache::Caches, key::ObjectKey, scope::Scope};
///
/// let caches = Caches::new(client);
/// let maps = caches.informer::<ConfigMap>(&Scope::namespace("default"));
/// maps.synced().await;
/// let settings = maps.get(&ObjectKey::namespaced("default", "settings"));
/// # }
/// ```
#[derive(Clone)]
pub struct Caches {
    inner: Arc<Inner>,
}

/// Status of an informer, for readiness and debugging.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStatus {
    /// The watched resource.
    pub resource: ApiResource,
    /// The watched scope.
    pub scope: Scope,
    /// Whole objects or metadata.
    pub form: Form,
    /// Whether the initial list is complete.
    pub synced: bool,
    /// Whether the resource is known not to be served.
    pub absent: bool,
    /// Whether the informer stopped because of a panic, so that its cache is no longer current. It is not synced then.
    pub failed: bool,
    /// Number of objects.
    pub objects: usize,
    /// Revision up to which the watch has delivered everything.
    pub revision: u64,
    /// Objects whose newest state failed to deserialize, at most 100 of them, sorted by key.
    pub unreadable: Vec<UnreadableObject>,
    /// Number of panics of its handlers.
    pub handler_panics: u64,
    /// Whether only [sets of watches](crate::controller::WatchSet) use it, so that it ends with these.
    pub leased: bool,
}

struct Inner {
    client: Client,
    metrics: OnceLock<(Arc<CacheMetrics>, WatchMetrics)>,
    informers: RwLock<HashMap<InformerKey, RunningInformer>>,
    /// The resource of an informer that stopped because of a panic.
    died: Arc<watch::Sender<Option<ApiResource>>>,
    /// Informers by Rust type, and for some types by resource.
    settings: RwLock<HashMap<SettingsOf, Settings<dyn AnyObject>>>,
}

/// Subject of settings: a Rust type, or one resource of it.
type SettingsOf = (TypeId, Option<ApiResource>);

/// Identity of an informer.
#[derive(Clone, PartialEq, Eq, Hash)]
struct InformerKey {
    /// The Rust type, which also determines the form.
    object: TypeId,
    resource: ApiResource,
    scope: Scope,
}

/// An informer and its task, which is aborted on drop.
struct RunningInformer {
    informer: Arc<AnyInformer>,
    task: AbortHandle,
    /// Whether it runs until it is removed. Set under any lock of the map, which is locked for writing to end it.
    pinned: AtomicBool,
    /// Number of leases, which end a running informer that is not pinned.
    leases: AtomicUsize,
}

/// Identity of a written object.
struct Written {
    resource: ApiResource,
    object: TypeId,
    metadata: bool,
}

/// A watch that counts until this is dropped: on another thread, it may count something after its informer was removed.
struct CountedWatch {
    caches: Weak<Inner>,
    resource: ApiResource,
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        if let Some(caches) = self.caches.upgrade() {
            // If it is locked, it may be by the caller, when the runtime ends. An informer that is being removed forgets itself.
            if let Some(informers) = caches.informers.try_read() {
                caches.forget_watches(&informers, &self.resource);
            }
        }
    }
}

impl Caches {
    /// Creates a set of caches without informers.
    pub fn new(client: Client) -> Self {
        let inner = Inner {
            client,
            metrics: OnceLock::new(),
            informers: RwLock::default(),
            died: Arc::default(),
            settings: RwLock::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the client of the informers, for watches besides them.
    pub fn client(&self) -> Client {
        self.inner.client.clone()
    }

    /// Registers metrics of informers and their watches, for informers that start afterwards. A second call does
    /// nothing.
    pub fn register_metrics(&self, metrics: &Metrics) {
        self.inner.metrics.get_or_init(|| (Arc::new(CacheMetrics::new(metrics)), WatchMetrics::register(metrics)));
    }

    /// Sets the settings of all informers of a Rust type that start afterwards. Running informers keep theirs.
    ///
    /// The type of metadata informers is `PartialObjectMeta<K>`.
    pub fn configure<K: Object>(&self, settings: Settings<K>) {
        self.inner.settings.write().insert((TypeId::of::<K>(), None), settings.into_any());
    }

    /// Sets the settings of the informers of one resource that start afterwards, for a Rust type with several
    /// resources. They take precedence over those of the type.
    pub fn configure_with<K: Object>(&self, dynamic: &K::DynamicType, settings: Settings<K>) {
        let key = (TypeId::of::<K>(), Some(resource_of::<K>(dynamic)));
        self.inner.settings.write().insert(key, settings.into_any());
    }

    /// Returns the informer of a kind, and starts it if needed.
    pub fn informer<K: Object<DynamicType: Default>>(&self, scope: &Scope) -> Informer<K> {
        self.informer_with(&K::DynamicType::default(), scope)
    }

    /// Returns the informer of a kind that is known at run time, and starts it if needed.
    pub fn informer_with<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) -> Informer<K> {
        Informer::of(self.inner.informer(WatchTarget::of::<K>(dynamic, scope.clone())))
    }

    /// Returns the metadata informer of a kind, and starts it if needed. Equivalent to an informer of
    /// `PartialObjectMeta<K>`.
    pub fn metadata_with<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) -> Informer<PartialObjectMeta<K>>
    where
        PartialObjectMeta<K>: Object<DynamicType = K::DynamicType>,
    {
        self.informer_with(dynamic, scope)
    }

    /// Returns the informer if it exists, without starting one.
    pub fn existing<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) -> Option<Informer<K>> {
        self.inner.find(&InformerKey::of::<K>(dynamic, scope)).map(Informer::of)
    }

    /// Ends an informer's watch and its subscriptions, for all its users. Existing handles keep the last known state,
    /// and get no more events. A later request starts a new informer.
    pub fn remove<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) {
        self.inner.remove(&InformerKey::of::<K>(dynamic, scope), |_| true);
    }

    /// Notifies all informers that cover an object of a successful write, with the state from the response of the API
    /// server. They show it from now on, as if the watch had delivered it; older states from the watch are skipped.
    /// This is how a reconcile reads its own writes.
    ///
    /// - A state with a deletion timestamp and no finalizers left is the end of the object.
    /// - An object that the write has moved out of an informer's scope is removed from it. Namespace, labels and name
    ///   determine whether it is in scope. For other field selectors, only the API server knows: such an informer
    ///   updates objects that it has, and waits for the watch to deliver others.
    /// - Informers of the same kind with another Rust type or form are notified through JSON if the version is the
    ///   same. Only metadata informers are notified of a write of metadata only.
    /// - A state without revision or UID (a dry run) is ignored. Do not call this with responses of subresources that
    ///   are other kinds.
    pub fn wrote<K: Object>(&self, dynamic: &K::DynamicType, object: &Arc<K>) {
        let resource = resource_of::<K>(dynamic);
        let written = Written { resource, object: TypeId::of::<K>(), metadata: K::metadata_api() };
        self.inner.wrote(&written, object.clone());
    }

    /// Notifies all informers of a delete that removed the object at once. `uid` is the UID of the deleted object;
    /// states of it that the watch still delivers are skipped.
    pub fn deleted<K: Object>(&self, dynamic: &K::DynamicType, key: &ObjectKey, uid: &str) {
        for informer in self.inner.of_kind(&K::group(dynamic), &K::kind(dynamic)) {
            informer.deleted(key, uid);
        }
    }

    /// Resolves when every informer that exists now has synced or is removed.
    pub async fn synced(&self) {
        let progress: Vec<_> =
            self.inner.informers.read().values().map(|running| running.informer.progress()).collect();
        for mut progress in progress {
            // An error means that it has ended.
            let _ = progress.wait_for(|progress| progress.synced || progress.ended).await;
        }
    }

    /// Returns whether every informer has synced.
    pub fn is_synced(&self) -> bool {
        self.inner.informers.read().values().all(|running| running.informer.progress().borrow().synced)
    }

    /// Resolves when an informer has stopped because of a panic: its cache is no longer current, and will not be again.
    pub async fn failed(&self) -> ApiResource {
        let mut died = self.inner.died.subscribe();
        match died.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(resource)) => resource.clone(),
            _ => unreachable!("the borrowed caches hold the sender"),
        }
    }

    /// Returns the status of all informers, sorted by resource.
    pub fn status(&self) -> Vec<InformerStatus> {
        let mut status: Vec<_> = self.inner.informers.read().values().map(RunningInformer::status).collect();
        status.sort_by(|a, b| {
            let key = |status: &InformerStatus| (status.resource.group.clone(), status.resource.plural.clone());
            key(a).cmp(&key(b)).then_with(|| format!("{:?}", a.scope).cmp(&format!("{:?}", b.scope)))
        });
        status
    }
}

impl InformerKey {
    fn of<K: Object>(dynamic: &K::DynamicType, scope: &Scope) -> Self {
        Self { object: TypeId::of::<K>(), resource: resource_of::<K>(dynamic), scope: scope.clone() }
    }
}

impl Inner {
    fn find(&self, slot: &InformerKey) -> Option<Arc<AnyInformer>> {
        self.informers.read().get(slot).map(|running| running.informer.clone())
    }

    /// Returns an informer, and starts it if needed. It runs until it is removed.
    fn informer(self: &Arc<Self>, target: WatchTarget) -> Arc<AnyInformer> {
        self.informer_for(target, &|running| running.pinned.store(true, Ordering::Relaxed))
    }

    /// Returns an informer, and starts it if needed. Its use is registered under the lock, so that it does not end before.
    fn informer_for(self: &Arc<Self>, target: WatchTarget, register: &dyn Fn(&RunningInformer)) -> Arc<AnyInformer> {
        let slot = target.key();
        if let Some(running) = self.informers.read().get(&slot) {
            register(running);
            return running.informer.clone();
        }
        let mut informers = self.informers.write();
        if let Some(running) = informers.get(&slot) {
            register(running);
            return running.informer.clone();
        }
        let shared = self.shared(target);
        let (living, died) = (shared.clone().live(self.run(shared.clone())), self.died.clone());
        let resource = slot.resource.clone();
        let counted = CountedWatch { caches: Arc::downgrade(self), resource: resource.clone() };
        let task = async move {
            let _counted = counted;
            if living.await.is_err() {
                died.send_replace(Some(resource));
            }
        };
        let task = tokio::spawn(task.boxed());
        let task = task.abort_handle();
        let (pinned, leases) = (AtomicBool::new(false), AtomicUsize::new(0));
        let running = RunningInformer { informer: shared.clone(), task, pinned, leases };
        register(&running);
        informers.insert(slot, running);
        shared
    }

    /// Ends an informer that satisfies a condition.
    fn remove(&self, slot: &InformerKey, ends: impl FnOnce(&RunningInformer) -> bool) {
        let mut informers = self.informers.write();
        if !informers.get(slot).is_some_and(ends) {
            return;
        }
        let removed = informers.remove(slot);
        // Under the lock, before a successor counts under the same labels.
        if let Some(removed) = &removed {
            removed.task.abort();
            removed.informer.uncount();
        }
        self.forget_watches(&informers, &slot.resource);
        drop(informers);
        // Not under the lock: handlers are dropped with it.
        drop(removed);
    }

    /// Removes the metrics of the watches of a resource that no informer watches any more.
    fn forget_watches(&self, informers: &HashMap<InformerKey, RunningInformer>, resource: &ApiResource) {
        let is_same = |other: &InformerKey| {
            (&other.resource.group, &other.resource.plural) == (&resource.group, &resource.plural)
        };
        if let Some((_, watches)) = self.metrics.get().filter(|_| !informers.keys().any(is_same)) {
            watches.forget(resource);
        }
    }

    /// Notifies informers of a write, those of other Rust types through JSON.
    fn wrote(&self, written: &Written, object: Arc<dyn AnyObject>) {
        let Written { resource, .. } = written;
        let partial = written.object != TypeId::of::<DynamicObject>();
        let mut json = None;
        for informer in self.of_kind(&resource.group, &resource.kind) {
            let target = &informer.target;
            let same_version = target.resource.version == resource.version;
            if target.object == written.object && same_version {
                informer.wrote(object.clone(), false);
            } else if target.form == Form::Metadata {
                let ApiResource { api_version, kind, .. } = &target.resource;
                let json = json!({"apiVersion": api_version, "kind": kind, "metadata": object.metadata()});
                informer.wrote_as_json(json.to_string().as_bytes(), false);
            } else if !written.metadata && same_version {
                let json = json.get_or_insert_with(|| {
                    let mut json = Vec::new();
                    object.write_json(&mut json).map(|()| json)
                });
                match json {
                    Ok(json) => informer.wrote_as_json(json, partial),
                    Err(error) => tracing::warn!(%error, kind = %resource.kind, "failed to serialize a written object"),
                }
            }
        }
    }

    /// Returns the informers of a kind, in all versions, scopes and types.
    fn of_kind(&self, group: &str, kind: &str) -> Vec<Arc<AnyInformer>> {
        let informers = self.informers.read();
        let of_kind = informers.iter().filter(|(slot, _)| slot.resource.group == group && slot.resource.kind == kind);
        of_kind.map(|(_, running)| running.informer.clone()).collect()
    }

    fn shared(&self, target: WatchTarget) -> Arc<AnyInformer> {
        let settings = self.settings.read();
        let settings = settings
            .get(&(target.object, Some(target.resource.clone())))
            .or_else(|| settings.get(&(target.object, None)))
            .cloned()
            .unwrap_or_default();
        let metadata = target.form == Form::Metadata;
        let metrics = self.metrics.get();
        let metrics =
            metrics.map(|(metrics, _)| InformerMetrics::new(metrics, &target.resource, &target.scope, metadata));
        Arc::new(AnyInformer::new(target, settings, metrics))
    }

    /// Watches and feeds an informer until dropped.
    fn run(&self, shared: Arc<AnyInformer>) -> impl Future<Output = ()> + Send + use<> {
        let (settings, target) = (&shared.settings, &shared.target);
        let options = WatchOptions {
            resource: target.resource.clone(),
            scope: target.scope.clone(),
            form: target.form,
            keep_managed_fields: settings.keep_managed_fields,
            page_size: settings.page_size,
            streaming_list: settings.streaming_list,
            short_watch: settings.short_watch,
            metrics: self.metrics.get().map(|(_, metrics)| metrics.clone()),
        };
        let span = tracing::info_span!("informer", kind = %target.resource.kind, group = %target.resource.group);
        let (sender, changes) = mpsc::channel(CHANGES);
        let watching = reflector::run_keeping(self.client.clone(), options, target.parse, shared.clone(), sender);
        async move {
            tokio::join!(watching, shared.feed(changes));
        }
        .instrument(span)
    }
}

impl WatchTarget {
    fn key(&self) -> InformerKey {
        InformerKey { object: self.object, resource: self.resource.clone(), scope: self.scope.clone() }
    }
}

impl RunningInformer {
    fn status(&self) -> InformerStatus {
        InformerStatus { leased: !self.pinned.load(Ordering::Relaxed), ..self.informer.status() }
    }
}

impl Drop for RunningInformer {
    fn drop(&mut self) {
        self.task.abort();
        self.informer.close();
    }
}

impl AnyInformer {
    fn wrote(&self, mut object: Arc<dyn AnyObject>, partial: bool) {
        let meta = object.metadata();
        if !self.parsed_scope.has_namespace(meta.namespace.as_deref()) {
            return;
        }
        if is_final(&self.target.resource.group, &self.target.resource.kind, meta) {
            let uid = meta.uid.as_deref().unwrap_or_default();
            return self.change(|store, emit| store.deleted(&ObjectKey::of_meta(meta), uid, emit));
        }
        let fit = self.parsed_scope.fit(meta);
        self.prepare(&mut object);
        self.change(|store, emit| store.wrote(object, fit, partial, emit));
    }

    /// Handles a write of another Rust type; `partial` if that type may not have all fields.
    fn wrote_as_json(&self, json: &[u8], partial: bool) {
        match self.target.parse.read(json) {
            Ok(object) => self.wrote(object, partial),
            // The content is not logged: it may be a secret.
            Err(_) => {
                let kind = &self.target.resource.kind;
                tracing::warn!(%kind, "failed to deserialize a written object as another type of its kind");
            }
        }
    }

    fn deleted(&self, key: &ObjectKey, uid: &str) {
        if self.parsed_scope.has_namespace(key.namespace()) {
            self.change(|store, emit| store.deleted(key, uid, emit));
        }
    }

    fn status(&self) -> InformerStatus {
        let store = self.store();
        InformerStatus {
            resource: self.target.resource.clone(),
            scope: self.target.scope.clone(),
            form: self.target.form,
            synced: store.is_synced(),
            absent: store.is_absent(),
            failed: store.is_failed(),
            objects: store.len(),
            revision: store.revision(),
            unreadable: store.some_unreadable(SHOWN_UNREADABLE),
            handler_panics: self.panics(),
            leased: false,
        }
    }
}
