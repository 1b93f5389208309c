//! Methods of a context: those of [`Kind`], for types known at compile time.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use kube::{
    api::{DeleteParams, Patch},
    core::Selector,
};
use serde::Serialize;

use super::{AdoptionPolicy, Context, ContextError, Desired, SetOutcome};
use crate::{
    cache::{Index, Informer},
    key::ObjectKey,
    object::Object,
    objects::{AsObject, owner::Owner},
};

/// Reads from the caches.
impl Context {
    /// Returns an object.
    pub fn get<K: Object<DynamicType: Default>>(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ContextError> {
        self.kind().get(key)
    }

    /// Returns all objects, in no particular order.
    pub fn list<K: Object<DynamicType: Default>>(&self) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().list()
    }

    /// Returns the objects of a namespace.
    pub fn list_in<K: Object<DynamicType: Default>>(&self, namespace: &str) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().list_in(namespace)
    }

    /// Returns the objects of all namespaces whose labels match.
    pub fn select<K: Object<DynamicType: Default>>(&self, selector: &Selector) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().select(None, selector)
    }

    /// Returns the objects of a namespace whose labels match.
    pub fn select_in<K: Object<DynamicType: Default>>(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().select(Some(namespace), selector)
    }

    /// Returns the objects whose controller is `parent`, by an index: `let pods: Vec<Arc<Pod>> = ctx.owned(&parent)?`,
    /// or `ctx.owned::<Pod, _>(&parent)?`.
    pub fn owned<K: Object<DynamicType: Default>, P: Object>(
        &self,
        parent: &impl AsObject<P>,
    ) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().owned(parent.object().meta().uid.as_deref().unwrap_or_default())
    }

    /// Returns the index of this name over the objects of a kind, and creates it if needed. See
    /// [`Informer::index`](crate::cache::Informer::index).
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use windlass_runtime::{Result, context::Context};
    /// # fn reconcile(ctx: &Context) -> Result<()> {
    /// let by_node = ctx.index("node", |pod: &Pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect())?;
    /// let on_first: Vec<_> = by_node.get("node-1");
    /// # Ok(()) }
    /// ```
    pub fn index<K, V, F>(&self, name: &'static str, values: F) -> Result<Index<K, V>, ContextError>
    where
        K: Object<DynamicType: Default>,
        V: Hash + Eq + Send + Sync + 'static,
        F: Fn(&K) -> Vec<V> + Send + Sync + 'static,
    {
        self.kind().index(name, values)
    }

    /// Returns the informer of a kind. Fails if the kind is watched in several scopes. See
    /// [`Kind::informer`](super::Kind::informer).
    pub fn informer<K: Object<DynamicType: Default>>(&self) -> Result<Informer<K>, ContextError> {
        self.kind().informer()
    }
}

/// Writes. They are sent only while this process leads, and later reads see them.
impl Context {
    /// Creates an object. See [`Kind::create`](super::Kind::create).
    pub async fn create<K: Object<DynamicType: Default>>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.kind().create(object).await
    }

    /// Replaces an object, if it has not changed since it was read. See [`Kind::update`](super::Kind::update).
    pub async fn update<K: Object<DynamicType: Default>>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.kind().update(object).await
    }

    /// Replaces an object's status, if it has not changed since it was read. See
    /// [`Kind::update_status`](super::Kind::update_status).
    pub async fn update_status<K: Object<DynamicType: Default>>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.kind().update_status(object).await
    }

    /// Patches an object. See [`Kind::patch`](super::Kind::patch).
    pub async fn patch<K: Object<DynamicType: Default>>(
        &self,
        object: &impl AsObject<K>,
        patch: &Patch<impl Serialize + Debug>,
    ) -> Result<Arc<K>, ContextError> {
        self.kind().patch(&ObjectKey::of(object.object()), patch).await
    }

    /// Deletes this object, and its dependents in the background. Succeeds if it is already deleted. See
    /// [`Kind::delete`](super::Kind::delete).
    pub async fn delete<K: Object<DynamicType: Default>>(&self, object: &impl AsObject<K>) -> Result<(), ContextError> {
        self.kind().delete(object, &DeleteParams::background()).await
    }

    /// Deletes this object with a grace period, another propagation policy or further preconditions.
    pub async fn delete_with<K: Object<DynamicType: Default>>(
        &self,
        object: &impl AsObject<K>,
        params: &DeleteParams,
    ) -> Result<(), ContextError> {
        self.kind().delete(object, params).await
    }

    /// Applies an object by server-side apply. See [`Kind::apply`](super::Kind::apply).
    pub async fn apply<K: Object<DynamicType: Default>>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.kind().apply(object).await
    }

    /// Applies an object that `parent` controls. An existing object that does not belong to the parent is left
    /// unchanged, with [`ContextError::NotOurs`]. See [`Kind::apply_owned`](super::Kind::apply_owned).
    pub async fn apply_owned<P, K>(&self, parent: &impl AsObject<P>, object: K) -> Result<Arc<K>, ContextError>
    where
        P: Object<DynamicType: Default>,
        K: Object<DynamicType: Default>,
    {
        self.kind().apply_owned(&self.owner(parent)?, object, AdoptionPolicy::Reject).await
    }

    /// Creates an object that `parent` controls. See [`Kind::create_owned`](super::Kind::create_owned).
    pub async fn create_owned<P, K>(&self, parent: &impl AsObject<P>, object: K) -> Result<Arc<K>, ContextError>
    where
        P: Object<DynamicType: Default>,
        K: Object<DynamicType: Default>,
    {
        self.kind().create_owned(&self.owner(parent)?, object).await
    }

    /// Like [`apply_owned`](Context::apply_owned), but adopts an existing object without a controller.
    pub async fn adopt<P, K>(&self, parent: &impl AsObject<P>, object: K) -> Result<Arc<K>, ContextError>
    where
        P: Object<DynamicType: Default>,
        K: Object<DynamicType: Default>,
    {
        self.kind().apply_owned(&self.owner(parent)?, object, AdoptionPolicy::Adopt).await
    }

    /// Applies the objects of a parent's set, and deletes objects of the set that are no longer desired.
    ///
    /// The set consists of the objects that the parent controls, of the kinds that the controller watches, with the
    /// label [`SET_LABEL`](super::SET_LABEL) of this name; nothing else is touched. Objects are applied concurrently, and
    /// all are attempted even if some fail; nothing is deleted if one has failed. Each apply is an
    /// [`apply_owned`](Context::apply_owned): nothing is sent for objects that are in place.
    ///
    /// The result has the applied objects and their readiness. An object that comes [`after`](Desired::after) others is
    /// applied when these are ready, and deleted before they are; while it waits, it keeps what it may depend on. As the controller watches them, the next step is taken
    /// when something changes.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Service}};
    /// # use windlass_runtime::{Result, context::{Context, Desired}};
    /// # async fn reconcile(ctx: &Context, parent: &ConfigMap, web: Deployment, service: Option<Service>) -> Result<()> {
    /// let mut desired = Desired::new().with(web);
    /// if let Some(service) = service {
    ///     desired.add(service); // without it, an earlier Service is deleted
    /// }
    /// let outcome = ctx.apply_set(parent, "web", &desired).await?;
    /// let missing: Vec<_> = outcome.unready().map(|child| format!("{}: {}", child.key, child.readiness())).collect();
    /// # Ok(()) }
    /// ```
    pub async fn apply_set<P: Object<DynamicType: Default>>(
        &self,
        parent: &impl AsObject<P>,
        set: &str,
        desired: &Desired,
    ) -> Result<SetOutcome, ContextError> {
        self.apply_set_of(&self.owner(parent)?, set, desired).await
    }

    /// Deletes all objects of a parent's set, those that come [`after`](Desired::after) others before these. The result
    /// tells whether they are [gone](SetOutcome::is_gone). For cleanups, when the order of garbage collection is not enough:
    ///
    /// ```no_run
    /// # use std::{sync::Arc, time::Duration};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_runtime::{Result, context::Context, controller::Action};
    /// async fn cleanup(parent: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
    ///     match ctx.delete_set(&parent, "web").await?.is_gone() {
    ///         true => Ok(Action::done()),
    ///         // The end of each object triggers another call.
    ///         false => Ok(Action::requeue_after(Duration::from_secs(60))),
    ///     }
    /// }
    /// ```
    pub async fn delete_set<P: Object<DynamicType: Default>>(
        &self,
        parent: &impl AsObject<P>,
        set: &str,
    ) -> Result<SetOutcome, ContextError> {
        self.apply_set(parent, set, &Desired::new()).await
    }

    /// Sets an object's status. See [`Kind::set_status`](super::Kind::set_status).
    pub async fn set_status<K: Object<DynamicType: Default>>(
        &self,
        object: &impl AsObject<K>,
        status: impl Serialize,
    ) -> Result<Arc<K>, ContextError> {
        self.kind().set_status(object, status).await
    }

    /// Adds a finalizer. See [`Kind::add_finalizer`](super::Kind::add_finalizer).
    pub async fn add_finalizer<K: Object<DynamicType: Default>>(
        &self,
        object: &impl AsObject<K>,
        name: &str,
    ) -> Result<Arc<K>, ContextError> {
        self.kind().add_finalizer(object, name).await
    }

    /// Removes a finalizer. See [`Kind::remove_finalizer`](super::Kind::remove_finalizer).
    pub async fn remove_finalizer<K: Object<DynamicType: Default>>(
        &self,
        object: &impl AsObject<K>,
        name: &str,
    ) -> Result<Option<Arc<K>>, ContextError> {
        self.kind().remove_finalizer(object, name).await
    }

    fn owner<P: Object<DynamicType: Default>>(&self, parent: &impl AsObject<P>) -> Result<Owner, ContextError> {
        let dynamic = P::DynamicType::default();
        Owner::of(parent).map_err(|source| ContextError::Owner {
            kind: P::kind(&dynamic).into_owned(),
            key: ObjectKey::of(parent.object()),
            source,
        })
    }
}
