//! A type-erased informer: a [`Store`] that a watch feeds, with its readers and subscribers. Compiled once for all
//! kinds.

use std::{
    any::{TypeId, type_name},
    borrow::Borrow,
    hash::Hash,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use futures_util::FutureExt;
use hashbrown::HashSet;
use kube::core::{ApiResource, Selector, SelectorExt};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    Event, IndexError, Informer, Settings, Subscription,
    cell::{Cell, Reading},
    dispatch::Dispatch,
    index::{Entries, Values},
    metrics::InformerMetrics,
    packing::{Packer, Sweep},
    parsed_scope::ParsedScope,
    store::{Emit, Store},
    table::parts,
};
use crate::{
    any_object::AnyObject,
    key::ObjectKey,
    object::{Object, resource_of},
    scope::Scope,
    watch::{Change, Decoder, Form, Parse, UnreadableObject},
};

mod storing;

/// Maximum number of changes that are applied under one lock: many, as they are quick, but few enough that readers need
/// not wait.
const BATCH: usize = 128;

/// A change from the watch, ready to be stored.
pub(super) type StoredChange = Change<dyn AnyObject, Arc<Cell<dyn AnyObject>>>;

/// The informer stopped because of a panic.
pub(super) struct InformerPanicked;

/// State that the handles of an informer share with the task that feeds it. See [`Informer`] for its reads.
pub(crate) struct AnyInformer {
    pub(super) target: WatchTarget,
    pub(super) parsed_scope: ParsedScope,
    pub(super) settings: Settings<dyn AnyObject>,
    pub(super) packer: Arc<Packer<dyn AnyObject>>,
    store: RwLock<Store<dyn AnyObject>>,
    dispatch: Arc<Dispatch<dyn AnyObject>>,
    pub(super) progress: watch::Sender<Progress>,
    /// Positions of the indices by namespace and by owner, once created.
    pub(super) namespaces: OnceLock<usize>,
    pub(super) owners: OnceLock<usize>,
    metrics: Option<InformerMetrics>,
    /// The last response that rejected a list or a watch.
    rejection: Mutex<Option<String>>,
}

/// Resource, scope and type that an informer watches.
#[derive(Clone)]
pub(super) struct WatchTarget {
    pub(super) resource: ApiResource,
    pub(super) scope: Scope,
    pub(super) form: Form,
    /// Rust type of the objects.
    pub(super) object: TypeId,
    pub(super) parse: Parse<dyn AnyObject>,
}

impl WatchTarget {
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

/// Progress of an informer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) revision: u64,
    pub(super) synced: bool,
    /// Whether the resource is known not to be served.
    pub(super) absent: bool,
    /// Number of times that the unreadable objects have changed.
    pub(super) unreadable_changes: u64,
    pub(super) ended: bool,
    /// Whether the API server rejects the initial list.
    pub(super) rejected: bool,
}

impl AnyInformer {
    pub(super) fn new(
        target: WatchTarget,
        settings: Settings<dyn AnyObject>,
        metrics: Option<InformerMetrics>,
    ) -> Self {
        let decoder = Decoder::new(target.parse, &target.resource, settings.keep_managed_fields);
        let packer = Packer::new(settings.packing, decoder);
        Self {
            parsed_scope: ParsedScope::new(&target.scope),
            dispatch: Arc::new(Dispatch::new(&target.resource.kind)),
            target,
            settings,
            store: RwLock::new(Store::new(packer.clone())),
            packer,
            progress: watch::Sender::default(),
            namespaces: OnceLock::new(),
            owners: OnceLock::new(),
            metrics,
            rejection: Mutex::default(),
        }
    }

    pub(super) fn store(&self) -> RwLockReadGuard<'_, Store<dyn AnyObject>> {
        self.store.read()
    }

    /// Returns all objects, to be read without the lock.
    pub(super) fn cells(&self) -> Vec<Arc<Cell<dyn AnyObject>>> {
        self.store().iter().cloned().collect()
    }

    pub(crate) fn resource(&self) -> &ApiResource {
        &self.target.resource
    }

    /// Returns the typed informer, which must have this type.
    pub(crate) fn typed<K: Object>(self: &Arc<Self>) -> Informer<K> {
        assert_eq!(self.target.object, TypeId::of::<K>(), "an informer has objects of one type");
        Informer::of(self.clone())
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<dyn AnyObject>> {
        let packed = {
            let store = self.store();
            let cell = store.get(parts(key))?;
            match cell.read_parsed(|_| true) {
                Some(object) => return object,
                None => cell.clone(),
            }
        };
        // Not under the store's lock: parsing takes a while, and writers wait.
        Some(packed.read())
    }

    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.cells().iter().map(|cell| cell.key()).collect()
    }

    pub(super) fn list(&self) -> Vec<Arc<dyn AnyObject>> {
        let mut reading = Reading::default();
        {
            let store = self.store();
            reading.reserve(store.len());
            store.iter().for_each(|object| reading.add(object));
        }
        reading.finish()
    }

    pub(super) fn select(&self, selector: &Selector) -> Vec<Arc<dyn AnyObject>> {
        let none = std::collections::BTreeMap::new();
        let matches = |object: &dyn AnyObject| selector.matches(object.metadata().labels.as_ref().unwrap_or(&none));
        let mut reading = Reading::default();
        self.store().iter().for_each(|object| reading.add_if(object, matches));
        reading.finish_if(matches)
    }

    pub(super) fn list_in(&self, namespace: &str) -> Vec<Arc<dyn AnyObject>> {
        match &self.target.scope.namespace {
            Some(scope) if scope == namespace => self.list(),
            Some(_) => Vec::new(),
            None => self.built_in(&self.namespaces, "windlass/namespace", namespace, || {
                Values::OfKey(|key| key.namespace().into_iter().map(str::to_owned).collect())
            }),
        }
    }

    pub(crate) fn owned_by(&self, uid: &str) -> Vec<Arc<dyn AnyObject>> {
        self.built_in(&self.owners, "windlass/owner", uid, || {
            Values::OfObject(Box::new(|object| {
                object.metadata().owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
            }))
        })
    }

    fn built_in(
        &self,
        place: &OnceLock<usize>,
        name: &'static str,
        value: &str,
        values: fn() -> Values<dyn AnyObject, String>,
    ) -> Vec<Arc<dyn AnyObject>> {
        let place =
            *place.get_or_init(|| self.index(name, values()).expect("built-in indices have one type of values"));
        self.indexed::<String, _>(place, value)
    }

    /// Returns the objects with a value of an index, which must have this type of values.
    pub(super) fn indexed<V, Q>(&self, place: usize, value: &Q) -> Vec<Arc<dyn AnyObject>>
    where
        V: Borrow<Q> + Hash + Eq + Send + Sync + 'static,
        Q: Hash + Eq + ?Sized,
    {
        let mut reading = Reading::default();
        self.with_index::<V, _>(place, |entries| entries.each(value, |object| reading.add(object)));
        // Not under the store's lock.
        reading.finish()
    }

    /// Reads an index, which must have this type of values.
    pub(super) fn with_index<V, T>(&self, place: usize, read: impl FnOnce(&Entries<dyn AnyObject, V>) -> T) -> T
    where
        V: Hash + Eq + Send + Sync + 'static,
    {
        let store = self.store();
        let entries = store.index_at(place).as_any().downcast_ref::<Entries<dyn AnyObject, V>>();
        read(entries.expect("an index keeps the type of its values"))
    }

    /// Returns the position of an index, and creates it if needed.
    pub(super) fn index<V>(&self, name: &'static str, values: Values<dyn AnyObject, V>) -> Result<usize, IndexError>
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
        let precomputed = index.precompute(self.cells());
        let mut store = self.store.write();
        if let Some(present) = present(&store) {
            return present;
        }
        index.fill(store.iter(), precomputed);
        Ok(store.take_index(Box::new(index)))
    }

    /// Creates an index without a name, and returns its position.
    pub(super) fn private_index<V>(&self, values: Values<dyn AnyObject, V>) -> usize
    where
        V: Hash + Eq + Send + Sync + 'static,
    {
        let mut index = Entries::new("", values);
        let precomputed = index.precompute(self.cells());
        let mut store = self.store.write();
        index.fill(store.iter(), precomputed);
        store.take_index(Box::new(index))
    }

    pub(crate) fn subscribe(&self, handler: Box<dyn FnMut(Event<dyn AnyObject>) + Send>) -> Subscription {
        // Even a subscription takes the write lock: nothing may be queued in between.
        let store = self.store.write();
        let present = store.iter().cloned().collect();
        let subscription = self.dispatch.queue_handler(handler, present, store.is_synced());
        drop(store);
        self.dispatch.deliver();
        subscription
    }

    pub(crate) async fn synced(&self) {
        self.wait(|progress| progress.synced).await;
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.progress.borrow().synced
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.store().is_absent()
    }

    /// Resolves when the informer has synced, or the resource is known not to be served.
    pub(crate) async fn known(&self) {
        self.wait(|progress| progress.synced || progress.absent).await;
    }

    /// Like [`known`](Self::known), or when the informer has ended, or when the API server rejects the initial list. Returns
    /// its response in that case.
    pub(crate) async fn settled(&self) -> Option<String> {
        self.wait(|progress| progress.synced || progress.absent || progress.ended || progress.rejected).await;
        let is_rejected = self.progress.borrow().rejected;
        self.rejection.lock().clone().filter(|_| is_rejected)
    }

    /// Resolves when the resource is served, after it was not.
    pub(crate) async fn served_again(&self) {
        self.wait(|progress| progress.absent).await;
        self.wait(|progress| progress.synced).await;
    }

    /// Returns what is wrong with the newest state of an object, if it failed to deserialize.
    pub(crate) fn unreadable(&self, key: &ObjectKey) -> Option<UnreadableObject> {
        self.store().unreadable().get(key).cloned()
    }

    /// Returns all objects that failed to deserialize.
    pub(crate) fn all_unreadable(&self) -> Vec<UnreadableObject> {
        self.store().unreadable().values().cloned().collect()
    }

    /// Resolves when the unreadable objects have changed more often than `changes`, and returns them.
    pub(crate) async fn unreadable_after(&self, changes: &mut u64) -> HashSet<ObjectKey> {
        self.wait(|progress| progress.unreadable_changes > *changes).await;
        let store = self.store();
        *changes = store.unreadable_changes();
        store.unreadable().keys().cloned().collect()
    }

    pub(super) async fn wait(&self, holds: impl Fn(&Progress) -> bool) {
        let mut progress = self.progress.subscribe();
        if progress.wait_for(holds).await.is_err() {
            unreachable!("the borrowed informer holds the sender");
        }
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn panics(&self) -> u64 {
        self.dispatch.panics()
    }

    /// Removes the informer from the metrics: its successor has the same labels.
    pub(super) fn uncount(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.remove();
        }
    }

    /// Feeds the informer until the source ends, and records a panic.
    pub(super) async fn live(self: Arc<Self>, source: impl Future<Output = ()> + Send) -> Result<(), InformerPanicked> {
        if AssertUnwindSafe(source).catch_unwind().await.is_ok() {
            return Ok(());
        }
        tracing::error!(
            kind = %self.target.resource.kind,
            "an informer panicked, perhaps in an index function; its cache is no longer current"
        );
        self.change(|store, _| store.fail());
        Err(InformerPanicked)
    }

    /// Ends all subscriptions.
    pub(super) fn close(&self) {
        self.uncount();
        self.progress.send_modify(|progress| progress.ended = true);
        self.dispatch.close();
    }

    /// Applies changes until their source ends.
    pub(super) async fn feed(self: Arc<Self>, mut changes: mpsc::Receiver<StoredChange>) {
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

    fn apply(&self, changes: impl Iterator<Item = StoredChange>) {
        let prepared = |mut change: StoredChange| {
            match &mut change {
                Change::Apply(object) | Change::Delete(object) => self.prepare(object),
                // The first ones of a list, which turned out to be long.
                Change::Replace { objects, .. } if self.packer.packs_texts(objects.len()) => {
                    objects.iter().for_each(|object| object.pack(&self.packer));
                }
                Change::Replace { objects, .. } => objects.iter().for_each(|object| object.forget_text()),
                _ => {}
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

    /// Changes the store, and notifies all subscribers.
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
        let progress = (store.revision(), store.is_synced(), store.is_absent(), store.unreadable_changes());
        if progress.1 && !was_synced {
            self.dispatch.queue_synced();
        }
        if let Some(metrics) = &self.metrics {
            metrics.set(store.len(), store.revision(), store.unreadable().len());
        }
        // Under the lock, so that it never goes back.
        self.progress.send_if_modified(|present| {
            let before = *present;
            (present.revision, present.synced, present.absent, present.unreadable_changes) = progress;
            present.rejected &= !present.synced && !present.absent;
            before != *present
        });
        drop(store);
        self.dispatch.deliver();
    }
}
