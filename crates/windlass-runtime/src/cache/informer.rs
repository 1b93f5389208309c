//! One informer, as its readers have it: with the type of its objects.

use std::{hash::Hash, marker::PhantomData, sync::Arc};

use kube::core::{ApiResource, Selector};
use tokio::sync::mpsc;

use super::{
    Event, Index, IndexError, Settings, Subscription,
    any_informer::{AnyInformer, WatchTarget},
    index::Values,
};
use crate::{
    any_object::{AnyObject, typed, typed_ref},
    key::ObjectKey,
    object::Object,
    scope::Scope,
    watch::Change,
};

/// A view of one resource within one scope, kept current by a watch. A cheap handle.
///
/// Reads are of one consistent state each, never wait for the server, and never block on handlers. The watch ends when
/// the informer is [removed](super::Caches::remove) or the last handle of its [`Caches`](super::Caches) is dropped;
/// what was known then can still be read.
pub struct Informer<K: Object> {
    any: Arc<AnyInformer>,
    _object: PhantomData<fn() -> K>,
}

impl<K: Object> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self::of(self.any.clone())
    }
}

impl<K: Object> Informer<K> {
    /// Its objects must have this type.
    pub(super) fn of(any: Arc<AnyInformer>) -> Self {
        Self { any, _object: PhantomData }
    }

    /// The same without the type.
    pub(crate) fn into_any(self) -> Arc<AnyInformer> {
        self.any
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
        let any = Arc::new(AnyInformer::new(WatchTarget::of::<K>(dynamic, Scope::all()), settings.into_any(), None));
        let informer = Self::of(any.clone());
        let (sender, kept) = mpsc::channel(1);
        let feeding = any.clone().feed(kept);
        let keeping = async move {
            while let Some(change) = changes.recv().await {
                if sender.send(change.into_any().map(|object| any.keep(object, 0))).await.is_err() {
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
        &self.any.target.resource
    }

    /// How much of it.
    pub fn scope(&self) -> &Scope {
        &self.any.target.scope
    }

    /// An object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.any.get(key).map(typed)
    }

    /// The names of all objects, in no order. No object is looked into, so those that are packed stay so.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.any.keys()
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.any.list().into_iter().map(typed).collect()
    }

    /// The objects of a namespace, in no order, by an index that is made when this is first called.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.any.list_in(namespace).into_iter().map(typed).collect()
    }

    /// The objects that have an owner with that uid, as its controller or otherwise, in no order, by an index that is
    /// made when this is first called.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.any.owned_by(uid).into_iter().map(typed).collect()
    }

    /// The objects whose labels match a selector, in no order. Looks at every object; an [index](Self::index) does not.
    /// A selector can be made of expressions, of a `LabelSelector`, or of text with
    /// [`parse_selector`](super::parse_selector).
    pub fn select(&self, selector: &Selector) -> Vec<Arc<K>> {
        self.any.select(selector).into_iter().map(typed).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.any.store().len()
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
        Ok(Index::new(self.any.clone(), self.any.index(name, values)?))
    }

    /// Calls a handler with everything that happens, in order, beginning with an `Added { initial: true }` for each
    /// object that is there. The handler must be quick and must not block: it is called by the watch itself, or by
    /// whoever writes. It may use the informer in every way. If it panics, that is logged and counted, and it is called
    /// again with the next event. The subscription becomes [synced](Subscription::synced) when the handler has had the
    /// first state.
    pub fn subscribe(&self, mut handler: impl FnMut(Event<K>) + Send + 'static) -> Subscription {
        self.any.subscribe(Box::new(move |event| handler(event.typed())))
    }

    /// Resolves when the first state is there. Stays pending while the resource is not served, and if the informer was
    /// removed before.
    pub async fn synced(&self) {
        self.any.synced().await;
    }

    /// Whether the first state is there, the resource is still served, and the informer has not died of a panic.
    pub fn is_synced(&self) -> bool {
        self.any.is_synced()
    }

    /// Whether the resource is known not to be served: its definition is not there, yet or any more.
    pub fn is_absent(&self) -> bool {
        self.any.is_absent()
    }

    /// The revision up to which the watch has brought everything. Own writes can be ahead of it.
    pub fn revision(&self) -> u64 {
        self.any.progress.borrow().revision
    }

    /// Resolves when the watch has brought everything up to a revision: for those who write by other means than the
    /// [context](crate::context), and want to read what they wrote. The revision must be of this resource; one that is
    /// never reached is never resolved, and one that no change of this scope follows is reached with the next bookmark,
    /// which servers send about once a minute.
    pub async fn caught_up(&self, revision: u64) {
        self.any.wait(|progress| progress.synced && progress.revision >= revision).await;
    }
}

#[cfg(test)]
mod tests;
