//! One informer: a [`Store`] that a watch feeds, and its readers.

use std::{
    any::{TypeId, type_name},
    hash::Hash,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use futures_util::FutureExt;
use kube::core::{ApiResource, Selector, SelectorExt};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    Event, Index, IndexError, Settings, Subscription, dispatch::Dispatch, index::Entries, metrics::InformerMetrics,
    scoped::Scoped, store::Store,
};
use crate::{key::ObjectKey, object::Object, scope::Scope, watch::Change};

/// Changes that are applied under one lock at most: many, as they are quick, and few enough that readers need not wait.
const BATCH: usize = 128;

/// A view of one resource within one scope, kept current by a watch. A cheap handle.
///
/// Reads are of one consistent state each, never wait for the server, and never block on handlers. The watch ends when
/// the informer is [removed](super::Caches::remove) or the last handle of its [`Caches`](super::Caches) is dropped;
/// what was known then can still be read.
pub struct Informer<K: Object> {
    shared: Arc<Shared<K>>,
}

/// What the handles of an informer share with the task that feeds it.
pub(super) struct Shared<K: Object> {
    pub(super) resource: ApiResource,
    pub(super) scope: Scope,
    pub(super) scoped: Scoped,
    pub(super) settings: Settings<K>,
    store: RwLock<Store<K>>,
    dispatch: Arc<Dispatch<K>>,
    progress: watch::Sender<Progress>,
    namespaces: OnceLock<usize>,
    owners: OnceLock<usize>,
    metrics: Option<InformerMetrics>,
}

/// How far an informer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) revision: u64,
    pub(super) synced: bool,
    pub(super) ended: bool,
}

impl<K: Object> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Object> Informer<K> {
    pub(super) fn of(shared: Arc<Shared<K>>) -> Self {
        Self { shared }
    }

    /// An informer that is fed by hand, and the future that feeds it: for tests, and for sources other than a watch.
    /// Its own writes are not told to it, as no [`Caches`](super::Caches) knows it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_runtime::{cache::{Informer, Settings}, watch::Change};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let (sender, changes) = tokio::sync::mpsc::channel(1);
    /// let (informer, feed) = Informer::<ConfigMap>::fed(&(), Settings::default(), changes);
    /// tokio::spawn(feed);
    /// sender.send(Change::Replace { objects: vec![Arc::default()], revision: 1 }).await.unwrap();
    /// informer.synced().await;
    /// assert_eq!(informer.len(), 1);
    /// # }
    /// ```
    pub fn fed(
        dynamic: &K::DynamicType,
        settings: Settings<K>,
        changes: mpsc::Receiver<Change<K>>,
    ) -> (Self, impl Future<Output = ()> + Send + use<K>) {
        let resource = crate::object::resource_of::<K>(dynamic);
        let shared = Arc::new(Shared::new(resource, Scope::all(), settings, None));
        (Self { shared: shared.clone() }, shared.feed(changes))
    }

    /// What it watches.
    pub fn resource(&self) -> &ApiResource {
        &self.shared.resource
    }

    /// How much of it.
    pub fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    /// An object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.shared.store().get((key.namespace().unwrap_or_default(), key.name())).cloned()
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.store().iter().cloned().collect()
    }

    /// The objects of a namespace, in no order, by an index that is made when this is first called.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        match &self.shared.scope.namespace {
            Some(scope) if scope == namespace => self.list(),
            Some(_) => Vec::new(),
            None => self.built_in(&self.shared.namespaces, "windlass/namespace", namespace, |object| {
                object.meta().namespace.iter().cloned().collect()
            }),
        }
    }

    /// The objects that have an owner with that uid, as its controller or otherwise, in no order, by an index that is
    /// made when this is first called.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.built_in(&self.shared.owners, "windlass/owner", uid, |object| {
            object.meta().owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
        })
    }

    /// The objects whose labels match a selector, in no order. Looks at every object; an [index](Self::index) does not.
    /// A selector can be made of expressions, of a `LabelSelector`, or of text with
    /// [`parse_selector`](super::parse_selector).
    pub fn select(&self, selector: &Selector) -> Vec<Arc<K>> {
        let none = std::collections::BTreeMap::new();
        let matches = |object: &&Arc<K>| selector.matches(object.meta().labels.as_ref().unwrap_or(&none));
        self.shared.store().iter().filter(matches).cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.shared.store().len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of that name, made if it is new, over objects that are there already, too. An object may have several
    /// values or none.
    ///
    /// The function must give the same values for the same object every time, and must not use the informer: it is
    /// called under its lock. If the name is taken by an index with values of the same type, that index is given, and
    /// the function is not used; with values of another type, it is an error.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn pods_by_node(pods: windlass_runtime::cache::Informer<Pod>) -> Result<(), windlass_runtime::cache::IndexError> {
    /// let by_node = pods.index("node", |pod: &Pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect())?;
    /// let on_first: Vec<_> = by_node.get("node-1");
    /// # Ok(()) }
    /// ```
    pub fn index<V, F>(&self, name: &'static str, values: F) -> Result<Index<K, V>, IndexError>
    where
        V: Hash + Eq + Send + Sync + 'static,
        F: Fn(&K) -> Vec<V> + Send + Sync + 'static,
    {
        let present = |store: &Store<K>| {
            let place = store.index_named(name)?;
            let (present, type_name_of_present) = store.index_at(place).value_type();
            Some(match present == TypeId::of::<V>() {
                true => Ok(Index::new(self.shared.clone(), place)),
                false => Err(IndexError::OtherType { name, asked: type_name::<V>(), present: type_name_of_present }),
            })
        };
        // Most calls only look it up, and must not make readers wait.
        if let Some(present) = present(&self.shared.store()) {
            return present;
        }
        let mut store = self.shared.store.write();
        if let Some(present) = present(&store) {
            return present;
        }
        let place = store.add_index(Box::new(Entries::new(name, values)));
        Ok(Index::new(self.shared.clone(), place))
    }

    fn built_in(
        &self,
        place: &OnceLock<usize>,
        name: &'static str,
        value: &str,
        values: fn(&K) -> Vec<String>,
    ) -> Vec<Arc<K>> {
        let place = *place.get_or_init(|| {
            let mut store = self.shared.store.write();
            store.add_index(Box::new(Entries::new(name, values)))
        });
        Index::<K, String>::new(self.shared.clone(), place).get(value)
    }

    /// Calls a handler with everything that happens, in order, beginning with an `Added { initial: true }` for each
    /// object that is there. The handler must be quick and must not block: it is called by the watch itself, or by
    /// whoever writes. It may use the informer in every way. If it panics, that is logged and counted, and it is called
    /// again with the next event. The subscription becomes [synced](Subscription::synced) when the handler has had the
    /// first state.
    pub fn subscribe(&self, handler: impl FnMut(Event<K>) + Send + 'static) -> Subscription {
        // Even reading takes the lock for writing: nothing may be queued in between.
        let store = self.shared.store.write();
        let present = store.iter().cloned().collect();
        let subscription = self.shared.dispatch.queue_handler(Box::new(handler), present, store.is_synced());
        drop(store);
        self.shared.dispatch.deliver();
        subscription
    }

    /// Resolves when the first state is there. Stays pending while the resource is not served, and if the informer was
    /// removed before.
    pub async fn synced(&self) {
        self.wait(|progress| progress.synced).await;
    }

    /// Whether the first state is there, the resource is still served, and the informer has not died of a panic.
    pub fn is_synced(&self) -> bool {
        self.shared.progress.borrow().synced
    }

    /// Whether the resource is known not to be served: its definition is not there, yet or any more.
    pub fn is_absent(&self) -> bool {
        self.shared.store().is_absent()
    }

    /// The revision up to which the watch has brought everything. Own writes can be ahead of it.
    pub fn revision(&self) -> u64 {
        self.shared.progress.borrow().revision
    }

    /// Resolves when the watch has brought everything up to a revision: for those who write by other means than the
    /// [context](crate::context), and want to read what they wrote. The revision must be of this resource; one that is
    /// never reached is never resolved, and one that no change of this scope follows is reached with the next bookmark,
    /// which servers send about once a minute.
    pub async fn caught_up(&self, revision: u64) {
        self.wait(|progress| progress.synced && progress.revision >= revision).await;
    }

    async fn wait(&self, holds: impl Fn(&Progress) -> bool) {
        let mut progress = self.shared.progress.subscribe();
        if progress.wait_for(holds).await.is_err() {
            unreachable!("the informer that is borrowed holds the sender");
        }
    }
}

impl<K: Object> Shared<K> {
    pub(super) fn new(
        resource: ApiResource,
        scope: Scope,
        settings: Settings<K>,
        metrics: Option<InformerMetrics>,
    ) -> Self {
        Self {
            scoped: Scoped::new(&scope),
            resource,
            scope,
            settings,
            store: RwLock::default(),
            dispatch: Arc::default(),
            progress: watch::Sender::default(),
            namespaces: OnceLock::new(),
            owners: OnceLock::new(),
            metrics,
        }
    }

    pub(super) fn store(&self) -> RwLockReadGuard<'_, Store<K>> {
        self.store.read()
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn panics(&self) -> u64 {
        self.dispatch.panics()
    }

    /// Takes its numbers out of the metrics: those of a successor have the same labels.
    pub(super) fn uncount(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.remove();
        }
    }

    /// Feeds it until the source ends, and takes note if that dies.
    pub(super) async fn live(self: Arc<Self>, source: impl Future<Output = ()> + Send) {
        if AssertUnwindSafe(source).catch_unwind().await.is_err() {
            tracing::error!(
                kind = %self.resource.kind,
                "an informer has died of a panic, of an index perhaps: what it holds is not current any more"
            );
            self.change(|store, _| store.fail());
        }
    }

    /// Ends all subscriptions.
    pub(super) fn close(&self) {
        self.uncount();
        self.progress.send_modify(|progress| progress.ended = true);
        self.dispatch.close();
    }

    /// Applies changes until their source ends.
    pub(super) async fn feed(self: Arc<Self>, mut changes: mpsc::Receiver<Change<K>>) {
        let mut batch = Vec::with_capacity(BATCH);
        let next_resync = || self.settings.next_resync().map(|delay| Instant::now() + delay);
        let mut resync = next_resync();
        loop {
            let resync_due = async {
                match resync {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = resync_due => {
                    self.change(|store, emit| {
                        for object in store.iter() {
                            emit(Event::Updated { old: object.clone(), new: object.clone() });
                        }
                    });
                    resync = next_resync();
                }
                received = changes.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return;
                    }
                    self.apply(&mut batch);
                }
            }
            self.dispatch.settled().await;
        }
    }

    fn apply(&self, changes: &mut Vec<Change<K>>) {
        for change in &mut *changes {
            match change {
                Change::Replace { objects, .. } => objects.iter_mut().for_each(|object| self.prepare(object)),
                Change::Apply(object) | Change::Delete(object) => self.prepare(object),
                Change::Gone { .. } | Change::Bookmark(_) | Change::Absent => {}
            }
        }
        self.change(|store, emit| {
            for change in changes.drain(..) {
                store.apply(change, emit);
            }
        });
    }

    /// Drops from an object what is not to be kept.
    pub(super) fn prepare(&self, object: &mut Arc<K>) {
        let managed = object.meta().managed_fields.is_some() && !self.settings.keep_managed_fields;
        if !managed && self.settings.transform.is_none() {
            return;
        }
        // What the watch has just read nobody else has: no copy is made.
        let object = Arc::make_mut(object);
        if managed {
            object.meta_mut().managed_fields = None;
        }
        if let Some(transform) = &self.settings.transform {
            let contained = std::panic::catch_unwind(AssertUnwindSafe(|| transform(object)));
            if contained.is_err() {
                tracing::error!(kind = %self.resource.kind, "a transform has panicked: the object is kept as it was left");
            }
        }
    }

    /// Changes the store, and tells everybody of it.
    pub(super) fn change(&self, change: impl FnOnce(&mut Store<K>, &mut dyn FnMut(Event<K>))) {
        let mut store = self.store.write();
        let was_synced = store.is_synced();
        self.dispatch.queue(|emit| {
            let mut counted = |event: Event<K>| {
                if let Some(metrics) = &self.metrics {
                    metrics.count(&event);
                }
                emit(event);
            };
            change(&mut store, &mut counted);
        });
        let progress = (store.revision(), store.is_synced());
        if progress.1 && !was_synced {
            self.dispatch.queue_synced();
        }
        if let Some(metrics) = &self.metrics {
            metrics.set(store.len(), store.revision());
        }
        // Under the lock, so that it never goes back.
        self.progress.send_if_modified(|present| {
            let before = *present;
            (present.revision, present.synced) = progress;
            before != *present
        });
        drop(store);
        self.dispatch.deliver();
    }
}

#[cfg(test)]
mod tests;
