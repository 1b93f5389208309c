//! All informers of a process, and what it writes.

use std::{
    any::{Any, TypeId},
    sync::{Arc, OnceLock},
};

use hashbrown::HashMap;
use kube::{
    Client,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
};
use parking_lot::RwLock;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};
use tracing::Instrument;

use super::{
    Informer, Settings,
    informer::{Progress, Shared},
    metrics::{CacheMetrics, InformerMetrics},
};
use crate::{
    key::ObjectKey,
    metrics::Metrics,
    object::{Object, is_final, resource_of},
    scope::Scope,
    watch::{self as reflector, Change, Form, WatchMetrics, WatchOptions},
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
    informers: RwLock<HashMap<Slot, Running>>,
    /// A `Settings<K>` for each type, and for some resources of it.
    settings: RwLock<HashMap<SettingsOf, Box<dyn Any + Send + Sync>>>,
}

/// Whose settings: of a Rust type, or of one resource of it.
type SettingsOf = (TypeId, Option<ApiResource>);

/// Which informer.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Slot {
    /// The Rust type; it tells the form, too.
    object: TypeId,
    resource: ApiResource,
    scope: Scope,
}

/// An informer with its task, which ends with this.
struct Running {
    informer: Arc<dyn AnyInformer>,
    task: AbortHandle,
}

/// An informer whose type is forgotten.
trait AnyInformer: Send + Sync {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn resource(&self) -> &ApiResource;
    fn is_metadata(&self) -> bool;
    /// A write of another Rust type; `partial` if that may not know all fields.
    fn wrote_converted(&self, object: &serde_json::Value, partial: bool);
    fn deleted(&self, key: &ObjectKey, uid: &str);
    fn status(&self) -> InformerStatus;
    fn progress(&self) -> watch::Receiver<Progress>;
    fn uncount(&self);
    fn close(&self);
}

impl Caches {
    /// No informers yet.
    pub fn new(client: Client) -> Self {
        let inner =
            Inner { client, metrics: OnceLock::new(), informers: RwLock::default(), settings: RwLock::default() };
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
        self.inner.settings.write().insert((TypeId::of::<K>(), None), Box::new(settings));
    }

    /// Settings of the informers of one resource that start afterwards, where one Rust type has several. They come
    /// before those of the type.
    pub fn configure_with<K: Object>(&self, dynamic: &K::DynamicType, settings: Settings<K>) {
        let key = (TypeId::of::<K>(), Some(resource_of::<K>(dynamic)));
        self.inner.settings.write().insert(key, Box::new(settings));
    }

    /// The informer of a typed resource, started if it is new.
    pub fn informer<K: Object<DynamicType: Default>>(&self, scope: &Scope) -> Informer<K> {
        self.informer_with(&K::DynamicType::default(), scope)
    }

    /// The informer of a resource whose type is known at run time, started if it is new.
    pub fn informer_with<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) -> Informer<K> {
        let slot = Slot::of::<K>(dynamic, scope);
        if let Some(informer) = self.inner.find(&slot) {
            return informer;
        }
        let mut informers = self.inner.informers.write();
        if let Some(running) = informers.get(&slot) {
            return running.typed();
        }
        let shared = self.inner.shared::<K>(&slot);
        let task = tokio::spawn(shared.clone().live(self.inner.run(shared.clone()))).abort_handle();
        informers.insert(slot, Running { informer: shared.clone(), task });
        Informer::of(shared)
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
        self.inner.find(&Slot::of::<K>(dynamic, scope))
    }

    /// Ends an informer's watch and its subscriptions. Handles of it keep what was known. Asking for it again starts
    /// another.
    pub fn remove<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope) {
        let mut informers = self.inner.informers.write();
        let removed = informers.remove(&Slot::of::<K>(dynamic, scope));
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
        let metadata = K::metadata_api();
        let partial = TypeId::of::<K>() != TypeId::of::<DynamicObject>();
        let mut json = None;
        for informer in self.inner.of_kind(&K::group(dynamic), &K::kind(dynamic)) {
            match informer.clone().as_any().downcast::<Shared<K>>() {
                Ok(shared) if shared.resource.version == K::version(dynamic) => shared.wrote(object.clone(), false),
                _ if informer.is_metadata() => {
                    let resource = informer.resource();
                    let json = serde_json::json!({
                        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": object.meta(),
                    });
                    informer.wrote_converted(&json, false);
                }
                _ if metadata || informer.resource().version != K::version(dynamic) => {}
                _ => match json.get_or_insert_with(|| serde_json::to_value(&**object)) {
                    Ok(json) => informer.wrote_converted(json, partial),
                    Err(error) => tracing::warn!(%error, kind = %K::kind(dynamic), "a written object is not JSON"),
                },
            }
        }
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

impl Slot {
    fn of<K: Object>(dynamic: &K::DynamicType, scope: &Scope) -> Self {
        Self { object: TypeId::of::<K>(), resource: resource_of::<K>(dynamic), scope: scope.clone() }
    }
}

impl Inner {
    fn find<K: Object>(&self, slot: &Slot) -> Option<Informer<K>> {
        self.informers.read().get(slot).map(Running::typed)
    }

    /// The informers of a kind, in all versions, scopes and types.
    fn of_kind(&self, group: &str, kind: &str) -> Vec<Arc<dyn AnyInformer>> {
        let informers = self.informers.read();
        let of_kind = informers.iter().filter(|(slot, _)| slot.resource.group == group && slot.resource.kind == kind);
        of_kind.map(|(_, running)| running.informer.clone()).collect()
    }

    fn shared<K: Object>(&self, slot: &Slot) -> Arc<Shared<K>> {
        let settings = self.settings.read();
        let settings = settings
            .get(&(slot.object, Some(slot.resource.clone())))
            .or_else(|| settings.get(&(slot.object, None)))
            .and_then(|settings| settings.downcast_ref::<Settings<K>>())
            .cloned()
            .unwrap_or_default();
        let metrics = self.metrics.get();
        let metrics =
            metrics.map(|(metrics, _)| InformerMetrics::new(metrics, &slot.resource, &slot.scope, K::metadata_api()));
        Arc::new(Shared::new(slot.resource.clone(), slot.scope.clone(), settings, metrics))
    }

    /// Watches and feeds an informer until dropped.
    fn run<K: Object>(&self, shared: Arc<Shared<K>>) -> impl Future<Output = ()> + Send + use<K> {
        let settings = &shared.settings;
        let options = WatchOptions {
            resource: shared.resource.clone(),
            scope: shared.scope.clone(),
            form: form_of::<K>(),
            keep_managed_fields: settings.keep_managed_fields,
            page_size: settings.page_size,
            streaming_list: settings.streaming_list,
            short_watch: settings.short_watch,
            metrics: self.metrics.get().map(|(_, metrics)| metrics.clone()),
        };
        let span = tracing::info_span!("informer", kind = %shared.resource.kind, group = %shared.resource.group);
        let (sender, changes) = mpsc::channel::<Change<K>>(CHANGES);
        let watching = reflector::run(self.client.clone(), options, sender);
        async move {
            tokio::join!(watching, shared.feed(changes));
        }
        .instrument(span)
    }
}

fn form_of<K: Object>() -> Form {
    if K::metadata_api() { Form::Metadata } else { Form::Whole }
}

impl Running {
    fn typed<K: Object>(&self) -> Informer<K> {
        let Ok(shared) = self.informer.clone().as_any().downcast::<Shared<K>>() else {
            unreachable!("an informer has the type of its slot");
        };
        Informer::of(shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
        self.informer.close();
    }
}

impl<K: Object> Shared<K> {
    fn wrote(&self, mut object: Arc<K>, partial: bool) {
        if !self.scoped.has_namespace(object.meta().namespace.as_deref()) {
            return;
        }
        if is_final(&self.resource.group, &self.resource.kind, &*object) {
            let uid = object.meta().uid.as_deref().unwrap_or_default();
            return self.change(|store, emit| store.deleted(&ObjectKey::of(&*object), uid, emit));
        }
        let fit = self.scoped.fit(&*object);
        self.prepare(&mut object);
        self.change(|store, emit| store.wrote(object, fit, partial, emit));
    }
}

impl<K: Object> AnyInformer for Shared<K> {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn resource(&self) -> &ApiResource {
        &self.resource
    }

    fn is_metadata(&self) -> bool {
        K::metadata_api()
    }

    fn wrote_converted(&self, object: &serde_json::Value, partial: bool) {
        match serde::Deserialize::deserialize(object) {
            Ok(object) => self.wrote(Arc::new(object), partial),
            // Nothing of the object is told: it may be a secret.
            Err(_) => {
                tracing::warn!(kind = %self.resource.kind, "a written object cannot be read as another type of its kind");
            }
        }
    }

    fn deleted(&self, key: &ObjectKey, uid: &str) {
        if self.scoped.has_namespace(key.namespace()) {
            self.change(|store, emit| store.deleted(key, uid, emit));
        }
    }

    fn status(&self) -> InformerStatus {
        let store = self.store();
        InformerStatus {
            resource: self.resource.clone(),
            scope: self.scope.clone(),
            form: form_of::<K>(),
            synced: store.is_synced(),
            absent: store.is_absent(),
            failed: store.is_failed(),
            objects: store.len(),
            revision: store.revision(),
            handler_panics: self.panics(),
        }
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        Shared::progress(self)
    }

    fn uncount(&self) {
        Shared::uncount(self);
    }

    fn close(&self) {
        Shared::close(self);
    }
}
