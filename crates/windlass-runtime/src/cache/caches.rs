//! All informers of a process, and what it writes.

use std::{
    any::TypeId,
    sync::{Arc, OnceLock},
};

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
    watch::{self as reflector, Form, WatchMetrics, WatchOptions},
};

/// Changes between the watch and the store: enough that neither waits for the other at each one.
const CHANGES: usize = 128;

/// All informers of a process. A cheap handle: clones share them.
///
/// There is one watch for each Rust type, resource and [`Scope`], whoever asks for it and however often. It begins when
/// it is first asked for, which must be within a tokio runtime, and ends when it is [removed](Caches::remove) or the
/// last handle is dropped.
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

/// What an informer is up to: for readiness and debugging.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStatus {
    /// What it watches.
    pub resource: ApiResource,
    /// How much of it.
    pub scope: Scope,
    /// Whole objects or metadata.
    pub form: Form,
    /// Whether it has its first state.
    pub synced: bool,
    /// Whether the resource is known not to be served.
    pub absent: bool,
    /// Whether it has died of a panic, so that what it holds is not current any more. It is not synced then.
    pub failed: bool,
    /// How many objects it holds.
    pub objects: usize,
    /// The revision up to which the watch has brought everything.
    pub revision: u64,
    /// How often its handlers have panicked.
    pub handler_panics: u64,
}

struct Inner {
    client: Client,
    metrics: OnceLock<(Arc<CacheMetrics>, WatchMetrics)>,
    informers: RwLock<HashMap<InformerKey, RunningInformer>>,
    /// What an informer that has died of a panic watched.
    died: Arc<watch::Sender<Option<ApiResource>>>,
    /// For each type, and for some resources of it.
    settings: RwLock<HashMap<SettingsOf, Settings<dyn AnyObject>>>,
}

/// Whose settings: of a Rust type, or of one resource of it.
type SettingsOf = (TypeId, Option<ApiResource>);

/// Which informer.
#[derive(Clone, PartialEq, Eq, Hash)]
struct InformerKey {
    /// The Rust type; it tells the form, too.
    object: TypeId,
    resource: ApiResource,
    scope: Scope,
}

/// An informer with its task, which ends with this.
struct RunningInformer {
    informer: Arc<AnyInformer>,
    task: AbortHandle,
}

/// What was written, and as what.
struct Written {
    resource: ApiResource,
    object: TypeId,
    metadata: bool,
}

impl Caches {
    /// No informers yet.
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

    /// Adds the numbers of informers and their watches to the metrics of the process: of those that start afterwards.
    /// The second call of this does nothing.
    pub fn register_metrics(&self, metrics: &Metrics) {
        self.inner.metrics.get_or_init(|| (Arc::new(CacheMetrics::new(metrics)), WatchMetrics::register(metrics)));
    }

    /// Settings of all informers of a Rust type that start afterwards. Those that run keep what they have.
    ///
    /// Metadata informers have the type `PartialObjectMeta<K>`.
    pub fn configure<K: Object>(&self, settings: Settings<K>) {
        self.inner.settings.write().insert((TypeId::of::<K>(), None), settings.into_any());
    }

    /// Settings of the informers of one resource that start afterwards, where one Rust type has several. They come
    /// before those of the type.
    pub fn configure_with<K: Object>(&self, dynamic: &K::DynamicType, settings: Settings<K>) {
        let key = (TypeId::of::<K>(), Some(resource_of::<K>(dynamic)));
        self.inner.settings.write().insert(key, settings.into_any());
    }

    /// The informer of a typed resource, started if it is new.
    pub fn informer<K: Object<DynamicType: Default>>(&self, scope: &Scope) -> Informer<K> {
        self.informer_with(&K::DynamicType::default(), scope)
    }

    /// The informer of a resource whose type is known at run time, started if it is new.
    pub fn informer_with<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) -> Informer<K> {
        Informer::of(self.inner.informer(WatchTarget::of::<K>(dynamic, scope.clone())))
    }

    /// The informer of a resource's metadata, started if it is new. The same as an informer of `PartialObjectMeta<K>`.
    pub fn metadata_with<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) -> Informer<PartialObjectMeta<K>>
    where
        PartialObjectMeta<K>: Object<DynamicType = K::DynamicType>,
    {
        self.informer_with(dynamic, scope)
    }

    /// The informer, if there is one already: a read starts no watch.
    pub fn existing<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) -> Option<Informer<K>> {
        self.inner.find(&InformerKey::of::<K>(dynamic, scope)).map(Informer::of)
    }

    /// Ends an informer's watch and its subscriptions, for everybody who shares it: handles of it keep what was known,
    /// and hear no more. Asking for it again starts another.
    pub fn remove<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) {
        let mut informers = self.inner.informers.write();
        let removed = informers.remove(&InformerKey::of::<K>(dynamic, scope));
        // Under the lock: nobody else begins to count under the same labels before.
        if let Some(removed) = &removed {
            removed.informer.uncount();
        }
        drop(informers);
        // Not under the lock: handlers are dropped with it.
        drop(removed);
    }

    /// Tells all informers that cover an object of a write that was just acknowledged, with the state that the server
    /// answered. They show it from now on, as if the watch had brought it; older states that the watch still brings are
    /// passed over. This is how a reconcile reads its own writes.
    ///
    /// - A state with a deletion timestamp that nothing holds back any more is the object's end.
    /// - An object that the write has moved out of an informer's scope is gone from it. Whether it is in scope is told
    ///   by namespace, labels, name; where a field selector asks for more, only the server knows: such an informer
    ///   updates what it has, and waits for the watch with what it does not have.
    /// - Informers of the same kind in another Rust type or form are told through JSON, if the version is the same. A
    ///   write of metadata alone is told to metadata informers only.
    /// - A state without revision or uid (a dry run) is ignored. So must be the answers of subresources that are other
    ///   kinds.
    pub fn wrote<K: Object>(&self, dynamic: &K::DynamicType, object: &Arc<K>) {
        let resource = resource_of::<K>(dynamic);
        let written = Written { resource, object: TypeId::of::<K>(), metadata: K::metadata_api() };
        self.inner.wrote(&written, object.clone());
    }

    /// The same for a delete that removed the object at once; `uid` is of the object that was deleted. States of it
    /// that the watch still brings are passed over.
    pub fn deleted<K: Object>(&self, dynamic: &K::DynamicType, key: &ObjectKey, uid: &str) {
        for informer in self.inner.of_kind(&K::group(dynamic), &K::kind(dynamic)) {
            informer.deleted(key, uid);
        }
    }

    /// Resolves when every informer that there is now has its first state, or is removed.
    pub async fn synced(&self) {
        let progress: Vec<_> =
            self.inner.informers.read().values().map(|running| running.informer.progress()).collect();
        for mut progress in progress {
            // An error is its end.
            let _ = progress.wait_for(|progress| progress.synced || progress.ended).await;
        }
    }

    /// Whether every informer has its first state.
    pub fn is_synced(&self) -> bool {
        self.inner.informers.read().values().all(|running| running.informer.progress().borrow().synced)
    }

    /// Resolves when an informer has died of a panic: what it holds is not current any more, and will not be.
    pub async fn failed(&self) -> ApiResource {
        let mut died = self.inner.died.subscribe();
        match died.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(resource)) => resource.clone(),
            _ => unreachable!("the caches that are borrowed hold the sender"),
        }
    }

    /// What all informers are up to, ordered by resource.
    pub fn status(&self) -> Vec<InformerStatus> {
        let mut status: Vec<_> =
            self.inner.informers.read().values().map(|running| running.informer.status()).collect();
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

    /// An informer, started if it is new.
    fn informer(&self, target: WatchTarget) -> Arc<AnyInformer> {
        let slot =
            InformerKey { object: target.object, resource: target.resource.clone(), scope: target.scope.clone() };
        if let Some(informer) = self.find(&slot) {
            return informer;
        }
        let mut informers = self.informers.write();
        if let Some(running) = informers.get(&slot) {
            return running.informer.clone();
        }
        let shared = self.shared(target);
        let (living, died) = (shared.clone().live(self.run(shared.clone())), self.died.clone());
        let resource = slot.resource.clone();
        let task = tokio::spawn(async move {
            if living.await.is_err() {
                died.send_replace(Some(resource));
            }
        });
        let task = task.abort_handle();
        informers.insert(slot, RunningInformer { informer: shared.clone(), task });
        shared
    }

    /// Tells informers of a write, those of other Rust types through JSON.
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
                    Err(error) => tracing::warn!(%error, kind = %resource.kind, "a written object is not JSON"),
                }
            }
        }
    }

    /// The informers of a kind, in all versions, scopes and types.
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

    /// A write of another Rust type; `partial` if that may not know all fields.
    fn wrote_as_json(&self, json: &[u8], partial: bool) {
        match self.target.parse.read(json) {
            Ok(object) => self.wrote(object, partial),
            // Nothing of the object is told: it may be a secret.
            Err(_) => {
                let kind = &self.target.resource.kind;
                tracing::warn!(%kind, "a written object cannot be read as another type of its kind");
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
            handler_panics: self.panics(),
        }
    }
}
