//! One informer: a [`Store`] that a watch feeds, and its readers.

use std::{
    any::{TypeId, type_name},
    hash::Hash,
    marker::PhantomData,
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
    Event, Index, IndexError, Settings, Subscription,
    cell::{Cell, Reading},
    dispatch::Dispatch,
    index::{Entries, Values},
    metrics::InformerMetrics,
    packing::{Packer, Sweep},
    scoped::Scoped,
    store::{Emit, Store},
    table::parts,
};
use crate::{
    erased::{AnyObject, typed, typed_ref, unshared},
    key::ObjectKey,
    object::{Object, resource_of},
    scope::Scope,
    watch::{Change, Form, Keeper, Parse},
};

/// Changes that are applied under one lock at most: many, as they are quick, and few enough that readers need not wait.
const BATCH: usize = 128;

/// What the watch brings, made ready to be kept.
pub(super) type Kept = Change<dyn AnyObject, Arc<Cell<dyn AnyObject>>>;

/// A view of one resource within one scope, kept current by a watch. A cheap handle.
///
/// Reads are of one consistent state each, never wait for the server, and never block on handlers. The watch ends when
/// the informer is [removed](super::Caches::remove) or the last handle of its [`Caches`](super::Caches) is dropped;
/// what was known then can still be read.
pub struct Informer<K: Object> {
    shared: Arc<Shared>,
    _object: PhantomData<fn() -> K>,
}

/// What the handles of an informer share with the task that feeds it. It does not know the type of its objects.
pub(super) struct Shared {
    pub(super) watched: Watched,
    pub(super) scoped: Scoped,
    pub(super) settings: Settings<dyn AnyObject>,
    pub(super) packer: Arc<Packer<dyn AnyObject>>,
    store: RwLock<Store<dyn AnyObject>>,
    dispatch: Arc<Dispatch<dyn AnyObject>>,
    progress: watch::Sender<Progress>,
    namespaces: OnceLock<usize>,
    owners: OnceLock<usize>,
    metrics: Option<InformerMetrics>,
}

/// What an informer watches, and as what.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) resource: ApiResource,
    pub(super) scope: Scope,
    pub(super) form: Form,
    /// The Rust type of its objects.
    pub(super) object: TypeId,
    pub(super) parse: Parse<dyn AnyObject>,
}

impl Watched {
    pub(super) fn of<K: Object>(dynamic: &K::DynamicType, scope: Scope) -> Self {
        Self {
            resource: resource_of::<K>(dynamic),
            scope,
            form: if K::metadata_api() { Form::Metadata } else { Form::Whole },
            object: TypeId::of::<K>(),
            parse: Parse::of::<K>(),
        }
    }
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
        Self::of(self.shared.clone())
    }
}

impl<K: Object> Informer<K> {
    /// Its objects must have this type.
    pub(super) fn of(shared: Arc<Shared>) -> Self {
        Self { shared, _object: PhantomData }
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
        mut changes: mpsc::Receiver<Change<K>>,
    ) -> (Self, impl Future<Output = ()> + Send + use<K>) {
        let shared = Arc::new(Shared::new(Watched::of::<K>(dynamic, Scope::all()), settings.erased(), None));
        let informer = Self::of(shared.clone());
        let (sender, kept) = mpsc::channel(1);
        let feeding = shared.clone().feed(kept);
        let keeping = async move {
            while let Some(change) = changes.recv().await {
                if sender.send(change.erased().map(|object| shared.keep(object, 0))).await.is_err() {
                    return;
                }
            }
        };
        (informer, async move {
            tokio::join!(feeding, keeping);
        })
    }

    /// What it watches.
    pub fn resource(&self) -> &ApiResource {
        &self.shared.watched.resource
    }

    /// How much of it.
    pub fn scope(&self) -> &Scope {
        &self.shared.watched.scope
    }

    /// An object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let packed = {
            let store = self.shared.store();
            let cell = store.get(parts(key))?;
            match cell.read_parsed(|_| true) {
                Some(object) => return object.map(typed),
                None => cell.clone(),
            }
        };
        // Not under the store's lock: parsing takes a while, and writers wait.
        Some(typed(packed.read()))
    }

    /// The names of all objects, in no order. No object is looked into, so those that are packed stay so.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.shared.cells().iter().map(|cell| cell.key()).collect()
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.list().into_iter().map(typed).collect()
    }

    /// The objects of a namespace, in no order, by an index that is made when this is first called.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        match &self.shared.watched.scope.namespace {
            Some(scope) if scope == namespace => self.list(),
            Some(_) => Vec::new(),
            None => self.built_in(&self.shared.namespaces, "windlass/namespace", namespace, || {
                Values::OfKey(|key| key.namespace().into_iter().map(str::to_owned).collect())
            }),
        }
    }

    /// The objects that have an owner with that uid, as its controller or otherwise, in no order, by an index that is
    /// made when this is first called.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.built_in(&self.shared.owners, "windlass/owner", uid, || {
            Values::OfObject(Box::new(|object| {
                object.metadata().owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
            }))
        })
    }

    /// The objects whose labels match a selector, in no order. Looks at every object; an [index](Self::index) does not.
    /// A selector can be made of expressions, of a `LabelSelector`, or of text with
    /// [`parse_selector`](super::parse_selector).
    pub fn select(&self, selector: &Selector) -> Vec<Arc<K>> {
        self.shared.select(selector).into_iter().map(typed).collect()
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
        let values = Values::OfObject(Box::new(move |object: &dyn AnyObject| values(typed_ref(object))));
        Ok(Index::new(self.shared.clone(), self.shared.index(name, values)?))
    }

    fn built_in(
        &self,
        place: &OnceLock<usize>,
        name: &'static str,
        value: &str,
        values: fn() -> Values<dyn AnyObject, String>,
    ) -> Vec<Arc<K>> {
        let place = *place.get_or_init(|| {
            self.shared.index(name, values()).expect("an index of informers themselves must have one type")
        });
        Index::<K, String>::new(self.shared.clone(), place).get(value)
    }

    /// Calls a handler with everything that happens, in order, beginning with an `Added { initial: true }` for each
    /// object that is there. The handler must be quick and must not block: it is called by the watch itself, or by
    /// whoever writes. It may use the informer in every way. If it panics, that is logged and counted, and it is called
    /// again with the next event. The subscription becomes [synced](Subscription::synced) when the handler has had the
    /// first state.
    pub fn subscribe(&self, mut handler: impl FnMut(Event<K>) + Send + 'static) -> Subscription {
        self.shared.subscribe(Box::new(move |event| handler(event.typed())))
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

impl Shared {
    pub(super) fn new(watched: Watched, settings: Settings<dyn AnyObject>, metrics: Option<InformerMetrics>) -> Self {
        let packer = Packer::new(settings.packing, watched.parse);
        Self {
            scoped: Scoped::new(&watched.scope),
            dispatch: Arc::new(Dispatch::new(&watched.resource.kind)),
            watched,
            settings,
            store: RwLock::new(Store::new(packer.clone())),
            packer,
            progress: watch::Sender::default(),
            namespaces: OnceLock::new(),
            owners: OnceLock::new(),
            metrics,
        }
    }

    pub(super) fn store(&self) -> RwLockReadGuard<'_, Store<dyn AnyObject>> {
        self.store.read()
    }

    /// All objects as they are, to be looked into without the lock.
    fn cells(&self) -> Vec<Arc<Cell<dyn AnyObject>>> {
        self.store().iter().cloned().collect()
    }

    fn list(&self) -> Vec<Arc<dyn AnyObject>> {
        let mut reading = Reading::default();
        {
            let store = self.store();
            reading.reserve(store.len());
            store.iter().for_each(|object| reading.add(object));
        }
        reading.finish()
    }

    fn select(&self, selector: &Selector) -> Vec<Arc<dyn AnyObject>> {
        let none = std::collections::BTreeMap::new();
        let matches = |object: &dyn AnyObject| selector.matches(object.metadata().labels.as_ref().unwrap_or(&none));
        let mut reading = Reading::default();
        self.store().iter().for_each(|object| reading.add_if(object, matches));
        reading.finish_if(matches)
    }

    /// The place of an index, which is made if it is new.
    fn index<V>(&self, name: &'static str, values: Values<dyn AnyObject, V>) -> Result<usize, IndexError>
    where
        V: Hash + Eq + Send + Sync + 'static,
    {
        let present = |store: &Store<dyn AnyObject>| {
            let place = store.index_named(name)?;
            let (present, type_name_of_present) = store.index_at(place).value_type();
            Some(match present == TypeId::of::<V>() {
                true => Ok(place),
                false => Err(IndexError::OtherType { name, asked: type_name::<V>(), present: type_name_of_present }),
            })
        };
        // Most calls only look it up, and must not make readers wait.
        if let Some(present) = present(&self.store()) {
            return present;
        }
        let mut index = Entries::new(name, values);
        let foreseen = index.foresee(self.cells());
        let mut store = self.store.write();
        if let Some(present) = present(&store) {
            return present;
        }
        index.fill(store.iter(), foreseen);
        Ok(store.take_index(Box::new(index)))
    }

    fn subscribe(&self, handler: Box<dyn FnMut(Event<dyn AnyObject>) + Send>) -> Subscription {
        // Even reading takes the lock for writing: nothing may be queued in between.
        let store = self.store.write();
        let present = store.iter().cloned().collect();
        let subscription = self.dispatch.queue_handler(handler, present, store.is_synced());
        drop(store);
        self.dispatch.deliver();
        subscription
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
                kind = %self.watched.resource.kind,
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
    pub(super) async fn feed(self: Arc<Self>, mut changes: mpsc::Receiver<Kept>) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut sweep = Sweep::default();
        let next_resync = || self.settings.next_resync().map(|delay| Instant::now() + delay);
        let mut resync = next_resync();
        loop {
            let due = |at: Option<Instant>| async move {
                match at {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due(resync) => {
                    self.change(|store, emit| {
                        for object in store.iter() {
                            emit(Event::Updated { old: object.clone(), new: object.clone() });
                        }
                    });
                    resync = next_resync();
                }
                () = due(sweep.due(&self)) => sweep.step(&self),
                received = changes.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return;
                    }
                    self.apply(batch.drain(..));
                }
            }
            self.dispatch.settled().await;
        }
    }

    fn apply(&self, changes: impl Iterator<Item = Kept>) {
        let prepared = |mut change| {
            if let Change::Apply(object) | Change::Delete(object) = &mut change {
                self.prepare(object);
            }
            change
        };
        // Before the lock is taken.
        let changes: Vec<_> = changes.map(prepared).collect();
        self.change(|store, emit| {
            for change in changes {
                store.apply(change, emit);
            }
        });
    }

    /// Makes ready to be kept an object of a state, of which so many have come before.
    fn keep(&self, mut object: Arc<dyn AnyObject>, before: usize) -> Arc<Cell<dyn AnyObject>> {
        self.prepare(&mut object);
        if self.packer.packs(before) { Cell::packed(object, &self.packer) } else { Cell::new(object) }
    }

    /// Drops from an object what is not to be kept.
    pub(super) fn prepare(&self, object: &mut Arc<dyn AnyObject>) {
        let managed = object.metadata().managed_fields.is_some() && !self.settings.keep_managed_fields;
        if !managed && self.settings.transform.is_none() {
            return;
        }
        // What the watch has just read nobody else has: no copy is made.
        let object = unshared(object);
        if managed {
            object.metadata_mut().managed_fields = None;
        }
        if let Some(transform) = &self.settings.transform {
            let contained = std::panic::catch_unwind(AssertUnwindSafe(|| transform(object)));
            if contained.is_err() {
                tracing::error!(kind = %self.watched.resource.kind, "a transform has panicked: the object is kept as it was left");
            }
        }
    }

    /// Changes the store, and tells everybody of it.
    pub(super) fn change(&self, change: impl FnOnce(&mut Store<dyn AnyObject>, Emit<'_, dyn AnyObject>)) {
        let mut store = self.store.write();
        let was_synced = store.is_synced();
        self.dispatch.queue(|emit| {
            let mut counted = |event: Event<Cell<dyn AnyObject>>| {
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

/// What a list brings is made ready while it comes: so the whole of it is never in memory in its long form.
impl Keeper for Arc<Shared> {
    type Kept = Arc<Cell<dyn AnyObject>>;

    fn keep(&self, object: Arc<dyn AnyObject>, before: usize) -> Arc<Cell<dyn AnyObject>> {
        Shared::keep(self, object, before)
    }

    fn key(kept: &Arc<Cell<dyn AnyObject>>) -> ObjectKey {
        kept.key()
    }
}

#[cfg(test)]
mod tests;
