//! A typed informer.

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
/// Each read returns one consistent state, never waits for the API server, and never blocks on handlers. The watch ends
/// when the informer is [removed](super::Caches::remove) or the last handle of its [`Caches`](super::Caches) is
/// dropped; the last known state can still be read.
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
    /// The objects must have this type.
    pub(super) fn of(any: Arc<AnyInformer>) -> Self {
        Self { any, _object: PhantomData }
    }

    /// Erases the type.
    pub(crate) fn into_any(self) -> Arc<AnyInformer> {
        self.any
    }

    /// Creates an informer that is fed through a channel, and the future that feeds it: for tests, and for sources
    /// other than a watch. It does not see own writes, as it belongs to no [`Caches`](super::Caches).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_runtime::{cache::{Informer, Settings}, watch::Change};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let (sender, changes) = tokio::sync::mpsc::channel(1);
    /// let (informer, feed) = Informer::<ConfigMap>::fed(&(), Settings::default(), changes);
    /// tokio::spawn(feed);
    /// sender.send(Change::Replace { objects: vec![Arc::default()], unreadable: Vec::new(), revision: 1 }).await.unwrap();
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
                if sender.send(change.into_any().map(|object| any.keep(object, 0, None))).await.is_err() {
                    return;
                }
            }
        };
        (informer, async move {
            tokio::join!(feeding, keeping);
        })
    }

    /// Returns the watched resource.
    pub fn resource(&self) -> &ApiResource {
        &self.any.target.resource
    }

    /// Returns the watched scope.
    pub fn scope(&self) -> &Scope {
        &self.any.target.scope
    }

    /// Returns an object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.any.get(key).map(typed)
    }

    /// Returns the keys of all objects, in no particular order. Packed objects stay packed.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.any.keys()
    }

    /// Returns all objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.any.list().into_iter().map(typed).collect()
    }

    /// Returns the objects of a namespace, in no particular order, by an index that the first call creates.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.any.list_in(namespace).into_iter().map(typed).collect()
    }

    /// Returns the objects with an owner of this UID, controlling or not, in no particular order, by an index that the
    /// first call creates.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.any.owned_by(uid).into_iter().map(typed).collect()
    }

    /// Returns the objects whose labels match a selector, in no particular order. This reads every object; an
    /// [index](Self::index) does not. A selector can be built from expressions, from a `LabelSelector`, or from text
    /// with [`parse_selector`](super::parse_selector).
    pub fn select(&self, selector: &Selector) -> Vec<Arc<K>> {
        self.any.select(selector).into_iter().map(typed).collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.any.store().len()
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index of this name, and creates it over all present objects if needed. An object may have several
    /// values or none.
    ///
    /// The function must always return the same values for the same object, and must not use the informer: it is called
    /// under its lock. If an index of this name with the same type of values exists, it is returned, and the function
    /// is not used. If its values have another type, this is an error.
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

    /// Creates an index that no other code can look up.
    pub(crate) fn private_index<V, F>(&self, values: F) -> Index<K, V>
    where
        V: Hash + Eq + Send + Sync + 'static,
        F: Fn(&K) -> Vec<V> + Send + Sync + 'static,
    {
        let values = Values::OfObject(Box::new(move |object: &dyn AnyObject| values(typed_ref(object))));
        Index::new(self.any.clone(), self.any.private_index(values))
    }

    /// Calls a handler with all events in order, beginning with an `Added { initial: true }` for each present object.
    /// The handler must be quick and must not block: it runs on the watch, or in the task that writes. It may use the
    /// informer freely. A panic is logged and counted, and the handler is called again with the next event. The
    /// subscription is [synced](Subscription::synced) when the handler has received the initial list.
    pub fn subscribe(&self, mut handler: impl FnMut(Event<K>) + Send + 'static) -> Subscription {
        self.any.subscribe(Box::new(move |event| handler(event.typed())))
    }

    /// Resolves when the initial list is complete. Stays pending while the resource is not served, or if the informer
    /// was removed before.
    pub async fn synced(&self) {
        self.any.synced().await;
    }

    /// Returns whether the initial list is complete, the resource is still served, and the informer has not stopped
    /// because of a panic.
    pub fn is_synced(&self) -> bool {
        self.any.is_synced()
    }

    /// Returns whether the resource is known not to be served, for example because its CRD is missing.
    pub fn is_absent(&self) -> bool {
        self.any.is_absent()
    }

    /// Returns the revision up to which the watch has delivered everything. Own writes can be ahead of it.
    pub fn revision(&self) -> u64 {
        self.any.progress.borrow().revision
    }

    /// Resolves when the watch has delivered everything up to a revision: for code that writes by other means than the
    /// [context](crate::context) and wants to read its own writes. The revision must be one of this resource, or this
    /// may never resolve. If no change in this scope follows the revision, it is reached with the next bookmark, which
    /// API servers send about once a minute.
    pub async fn caught_up(&self, revision: u64) {
        self.any.wait(|progress| progress.synced && progress.revision >= revision).await;
    }
}

#[cfg(test)]
mod tests;
