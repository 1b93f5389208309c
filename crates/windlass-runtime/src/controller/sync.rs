//! Controllers as a pure function, from a parent and its children to the desired state of both.
//!
//! The function only returns the desired state. The framework applies the children, deletes children that are no longer
//! desired, and writes the status. Such a function can be tested without a cluster, and cannot forget a step.
//!
//! ```
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
//! use windlass_runtime::{Result, controller::{Controller, sync::{Children, DesiredState}}};
//!
//! fn sync(parent: &Deployment, children: &Children<'_>) -> Result<DesiredState> {
//!     let mut config = ConfigMap::default();
//!     config.metadata.name = Some(format!("{}-config", parent.metadata.name.as_deref().unwrap_or_default()));
//!     let existing = children.list::<ConfigMap>()?.len();
//!     Ok(DesiredState::new().child(config).status(serde_json::json!({ "configs": existing })))
//! }
//!
//! let controller = Controller::<Deployment>::syncing("configs", sync).owns::<ConfigMap>();
//! ```

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::Value;

use crate::{
    Result,
    any_object::AnyObject,
    context::{
        Context, ContextError, Desired,
        any_kind::{AnyKind, kind_info},
    },
    controller::{Action, Controller, Reconciler, Watch},
    key::ObjectKey,
    object::Object,
    objects::owner::{Owner, controller_of},
};

/// The cached objects that a parent controls, of the kinds that the controller [owns](Controller::owns).
pub struct Children<'a> {
    context: &'a Context,
    namespace: Option<&'a str>,
    uid: &'a str,
}

impl Children<'_> {
    /// Returns all children of a kind, sorted by name.
    pub fn list<W: Object<DynamicType: Default>>(&self) -> Result<Vec<Arc<W>>, ContextError> {
        self.list_with(&W::DynamicType::default())
    }

    /// Returns all children of a kind that is known at run time, sorted by name.
    pub fn list_with<W: Object>(&self, dynamic: &W::DynamicType) -> Result<Vec<Arc<W>>, ContextError> {
        let mut children = self.context.kind_with::<W>(dynamic).owned(self.uid)?;
        children.sort_by_cached_key(|child| ObjectKey::of(child.as_ref()));
        Ok(children)
    }

    /// Returns the child of this name in the parent's namespace. (For a cluster-scoped parent, only cluster-scoped
    /// children are found; [`list`](Self::list) also returns those in namespaces.)
    pub fn get<W: Object<DynamicType: Default>>(&self, name: &str) -> Result<Option<Arc<W>>, ContextError> {
        let key = match self.namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        };
        let child = self.context.kind::<W>().get(&key)?;
        Ok(child.filter(|child| controller_of(child.meta()).is_some_and(|owner| owner.uid == self.uid)))
    }
}

/// Desired state that a sync function returns.
#[derive(Default)]
pub struct DesiredState {
    children: Desired,
    status: Option<Result<Value, serde_json::Error>>,
    resync_after: Option<Duration>,
}

impl DesiredState {
    /// Creates a desired state without children, which leaves the status unchanged.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a child. It is owned by the parent, and in the parent's namespace unless it names another. The controller
    /// must own its kind.
    #[must_use]
    pub fn child<W: Object<DynamicType: Default>>(mut self, child: W) -> Self {
        self.children.add(child);
        self
    }

    /// Adds a child of a kind that is known at run time.
    #[must_use]
    pub fn child_with<W: Object>(mut self, child: W, dynamic: &W::DynamicType) -> Self {
        self.children.add_with(child, dynamic);
        self
    }

    /// Sets fields of the parent's status. Fields that others set are kept.
    #[must_use]
    pub fn status(mut self, status: impl Serialize) -> Self {
        self.status = Some(serde_json::to_vec(&status).and_then(|status| serde_json::from_slice(&status)));
        self
    }

    /// Requests a reconcile after this delay, even if nothing changes.
    #[must_use]
    pub fn resync_after(mut self, delay: Duration) -> Self {
        self.resync_after = Some(delay);
        self
    }
}

impl DesiredState {
    async fn realize(self, kind: &AnyKind<'_>, parent: &dyn AnyObject, owner: &Owner, set: &str) -> Result<Action> {
        // Write the status even if the children could not be applied: it may say why.
        let applied = kind.context().apply_set_of(owner, set, &self.children).await;
        if let Some(status) = self.status {
            kind.set_status(parent, Ok(status?)).await?;
        }
        applied?;
        Ok(self.resync_after.map_or(Action::done(), Action::requeue_after))
    }
}

struct Sync<K: Object, F> {
    /// Distinguishes the children of this controller from those of other controllers of the same parents.
    set: String,
    dynamic: K::DynamicType,
    sync: F,
}

impl<K, F> Reconciler<K> for Sync<K, F>
where
    K: Object,
    F: for<'a> Fn(&K, &Children<'a>) -> Result<DesiredState> + Send + std::marker::Sync + 'static,
{
    async fn reconcile(&self, parent: Arc<K>, ctx: Context) -> Result<Action> {
        let owner = Owner::of_with(&parent, &self.dynamic)?;
        let children = Children { context: &ctx, namespace: parent.meta().namespace.as_deref(), uid: owner.uid() };
        let wanted = (self.sync)(&parent, &children)?;
        let kind = AnyKind::new(&ctx, kind_info::<K>(&self.dynamic));
        wanted.realize(&kind, parent.as_ref(), &owner, &self.set).await
    }
}

impl<K: Object<DynamicType: Default>> Controller<K> {
    /// Creates a controller from a pure function; see the [module](self). Children that are no longer desired are
    /// deleted only if their kind is [owned](Self::owns). An object that is being deleted is not synced: its children
    /// are garbage-collected.
    pub fn syncing(
        name: &str,
        sync: impl for<'a> Fn(&K, &Children<'a>) -> Result<DesiredState> + Send + std::marker::Sync + 'static,
    ) -> Self {
        Self::syncing_of(name, Watch::new(), sync)
    }
}

impl<K: Object> Controller<K> {
    /// Creates such a controller for the objects of a [`Watch`].
    pub fn syncing_of(
        name: &str,
        primary: Watch<K>,
        sync: impl for<'a> Fn(&K, &Children<'a>) -> Result<DesiredState> + Send + std::marker::Sync + 'static,
    ) -> Self {
        let reconciler = Sync { set: name.to_owned(), dynamic: primary.dynamic().clone(), sync };
        Self::of(name, primary, reconciler)
    }
}
