//! The methods of a context: those of [`Kind`], for types known at compile time.

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

/// Reads, from the caches.
impl Context {
    /// An object.
    pub fn get<K: Object<DynamicType: Default>>(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ContextError> {
        self.kind().get(key)
    }

    /// All objects, in no order.
    pub fn list<K: Object<DynamicType: Default>>(&self) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().list()
    }

    /// The objects of a namespace.
    pub fn list_in<K: Object<DynamicType: Default>>(&self, namespace: &str) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().list_in(namespace)
    }

    /// The objects whose labels match, of all namespaces.
    pub fn select<K: Object<DynamicType: Default>>(&self, selector: &Selector) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().select(None, selector)
    }

    /// The objects whose labels match, of a namespace.
    pub fn select_in<K: Object<DynamicType: Default>>(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().select(Some(namespace), selector)
    }

    /// The objects whose controller is `parent`, by an index: `let pods: Vec<Arc<Pod>> = ctx.owned(&parent)?`, or
    /// `ctx.owned::<Pod, _>(&parent)?`.
    pub fn owned<K: Object<DynamicType: Default>, P: Object>(
        &self,
        parent: &impl AsObject<P>,
    ) -> Result<Vec<Arc<K>>, ContextError> {
        self.kind().owned(parent.object().meta().uid.as_deref().unwrap_or_default())
    }

    /// The index of that name over the objects of a kind, made if it is new. See
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

    /// The informer of a kind. An error if the kind is watched in several scopes. See
    /// [`Kind::informer`](super::Kind::informer).
    pub fn informer<K: Object<DynamicType: Default>>(&self) -> Result<Informer<K>, ContextError> {
        self.kind().informer()
    }
}

/// Writes. Each is sent only while this process leads, and is seen by the reads that follow.
impl Context {
    /// Creates an object. See [`Kind::create`](super::Kind::create).
    pub async fn create<K: Object<DynamicType: Default>>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.kind().create(object).await
    }

    /// Replaces an object, if it has not changed since. See [`Kind::update`](super::Kind::update).
    pub async fn update<K: Object<DynamicType: Default>>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.kind().update(object).await
    }

    /// Replaces an object's status, if it has not changed since. See [`Kind::update_status`](super::Kind::update_status).
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

    /// Deletes this very object, its dependents in the background. Succeeds if it is gone. See
    /// [`Kind::delete`](super::Kind::delete).
    pub async fn delete<K: Object<DynamicType: Default>>(&self, object: &impl AsObject<K>) -> Result<(), ContextError> {
        self.kind().delete(object, &DeleteParams::background()).await
    }

    /// The same with a grace period, another propagation or further preconditions.
    pub async fn delete_with<K: Object<DynamicType: Default>>(
        &self,
        object: &impl AsObject<K>,
        params: &DeleteParams,
    ) -> Result<(), ContextError> {
        self.kind().delete(object, params).await
    }

    /// Makes an object have what is set here. See [`Kind::apply`](super::Kind::apply).
    pub async fn apply<K: Object<DynamicType: Default>>(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.kind().apply(object).await
    }

    /// The same for an object that `parent` controls. One that is there already and not the parent's is left alone,
    /// with [`ContextError::NotOurs`]. See [`Kind::apply_owned`](super::Kind::apply_owned).
    pub async fn apply_owned<P, K>(&self, parent: &impl AsObject<P>, object: K) -> Result<Arc<K>, ContextError>
    where
        P: Object<DynamicType: Default>,
        K: Object<DynamicType: Default>,
    {
        self.kind().apply_owned(&self.owner(parent)?, object, AdoptionPolicy::Refuse).await
    }

    /// Creates an object that `parent` controls. See [`Kind::create_owned`](super::Kind::create_owned).
    pub async fn create_owned<P, K>(&self, parent: &impl AsObject<P>, object: K) -> Result<Arc<K>, ContextError>
    where
        P: Object<DynamicType: Default>,
        K: Object<DynamicType: Default>,
    {
        self.kind().create_owned(&self.owner(parent)?, object).await
    }

    /// [`apply_owned`](Context::apply_owned), but one that has no controller gets this one.
    pub async fn adopt<P, K>(&self, parent: &impl AsObject<P>, object: K) -> Result<Arc<K>, ContextError>
    where
        P: Object<DynamicType: Default>,
        K: Object<DynamicType: Default>,
    {
        self.kind().apply_owned(&self.owner(parent)?, object, AdoptionPolicy::Adopt).await
    }

    /// Makes the objects of a parent's set exist as desired, and deletes those of the set that are not desired any
    /// more.
    ///
    /// The set is what the parent controls, in the kinds that are wired, with the label [`SET_LABEL`](super::SET_LABEL)
    /// of that name; nothing else is touched. All objects are tried even if some fail; if any apply failed, nothing is
    /// deleted. Each apply is an [`apply_owned`](Context::apply_owned): nothing is sent for what is in place.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Service}};
    /// # use windlass_runtime::{Result, context::{Context, Desired}};
    /// # async fn reconcile(ctx: &Context, parent: &ConfigMap, web: Deployment, service: Option<Service>) -> Result<()> {
    /// let mut desired = Desired::new().with(web);
    /// if let Some(service) = service {
    ///     desired.add(service); // and if there is none, the one of before is deleted
    /// }
    /// ctx.apply_set(parent, "web", &desired).await?;
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

    /// Makes an object's status say this. See [`Kind::set_status`](super::Kind::set_status).
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
