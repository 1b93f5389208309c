//! Controllers as a pure function: from a parent and its children to what both should be.
//!
//! The function looks and says what it wants; the framework does it: it applies the children, removes those that are
//! not wanted any more, and writes the status. Such a function can be tested without a cluster, and cannot forget a
//! step.
//!
//! ```
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
//! use windlass_runtime::{Result, controller::{Controller, sync::{Children, DesiredState}}};
//!
//! fn sync(parent: &Deployment, children: &Children<'_>) -> Result<DesiredState> {
//!     let mut config = ConfigMap::default();
//!     config.metadata.name = Some(format!("{}-config", parent.metadata.name.as_deref().unwrap_or_default()));
//!     let there = children.list::<ConfigMap>()?.len();
//!     Ok(DesiredState::new().child(config).status(serde_json::json!({ "configs": there })))
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

/// The objects that a parent controls, of the kinds that the controller [owns](Controller::owns), as the caches have
/// them.
pub struct Children<'a> {
    context: &'a Context,
    namespace: Option<&'a str>,
    uid: &'a str,
}

impl Children<'_> {
    /// All children of a kind, ordered by name.
    pub fn list<W: Object<DynamicType: Default>>(&self) -> Result<Vec<Arc<W>>, ContextError> {
        self.list_with(&W::DynamicType::default())
    }

    /// All children of a kind that is known at run time, ordered by name.
    pub fn list_with<W: Object>(&self, dynamic: &W::DynamicType) -> Result<Vec<Arc<W>>, ContextError> {
        let mut children = self.context.kind_with::<W>(dynamic).owned(self.uid)?;
        children.sort_by_cached_key(|child| ObjectKey::of(child.as_ref()));
        Ok(children)
    }

    /// The child of a name, in the parent's namespace. (Parents of the cluster find their children there alone;
    /// [`list`](Self::list) has those in namespaces.)
    pub fn get<W: Object<DynamicType: Default>>(&self, name: &str) -> Result<Option<Arc<W>>, ContextError> {
        let key = match self.namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        };
        let child = self.context.kind::<W>().get(&key)?;
        Ok(child.filter(|child| controller_of(child.meta()).is_some_and(|owner| owner.uid == self.uid)))
    }
}

/// What a sync function wants to be so.
#[derive(Default)]
pub struct DesiredState {
    children: Desired,
    status: Option<Result<Value, serde_json::Error>>,
    resync_after: Option<Duration>,
}

impl DesiredState {
    /// No children; a status that is left as it is.
    pub fn new() -> Self {
        Self::default()
    }

    /// And this child: owned by the parent, in its namespace unless it says otherwise. Its kind must be one that the
    /// controller owns.
    #[must_use]
    pub fn child<W: Object<DynamicType: Default>>(mut self, child: W) -> Self {
        self.children.add(child);
        self
    }

    /// And this child of a kind that is known at run time.
    #[must_use]
    pub fn child_with<W: Object>(mut self, child: W, dynamic: &W::DynamicType) -> Self {
        self.children.add_with(child, dynamic);
        self
    }

    /// The parent's status is to say this; parts of it that others set stay.
    #[must_use]
    pub fn status(mut self, status: impl Serialize) -> Self {
        self.status = Some(serde_json::to_vec(&status).and_then(|status| serde_json::from_slice(&status)));
        self
    }

    /// Look again after this time, even if nothing changes.
    #[must_use]
    pub fn resync_after(mut self, delay: Duration) -> Self {
        self.resync_after = Some(delay);
        self
    }
}

impl DesiredState {
    async fn make_so(self, kind: &AnyKind<'_>, parent: &dyn AnyObject, owner: &Owner, set: &str) -> Result<Action> {
        // The status may be told even if the children cannot be made: it may say why.
        let applied = kind.context().apply_set_of(owner, set, &self.children).await;
        if let Some(status) = self.status {
            kind.set_status(parent, Ok(status?)).await?;
        }
        applied?;
        Ok(self.resync_after.map_or(Action::done(), Action::requeue_after))
    }
}

struct Sync<K: Object, F> {
    /// What the children of this controller are known by, among those of other controllers of the same parents.
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
        // Its children go with it.
        if parent.meta().deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let owner = Owner::of_with(&parent, &self.dynamic)?;
        let children = Children { context: &ctx, namespace: parent.meta().namespace.as_deref(), uid: owner.uid() };
        let wanted = (self.sync)(&parent, &children)?;
        let kind = AnyKind::new(&ctx, kind_info::<K>(&self.dynamic));
        wanted.make_so(&kind, parent.as_ref(), &owner, &self.set).await
    }
}

impl<K: Object<DynamicType: Default>> Controller<K> {
    /// A controller that is a pure function; see the [module](self). Only children of kinds that are
    /// [owned](Self::owns) are removed when they are not wanted any more. An object that is being deleted is left
    /// alone: garbage collection takes its children.
    pub fn syncing(
        name: &str,
        sync: impl for<'a> Fn(&K, &Children<'a>) -> Result<DesiredState> + Send + std::marker::Sync + 'static,
    ) -> Self {
        Self::syncing_of(name, Watch::new(), sync)
    }
}

impl<K: Object> Controller<K> {
    /// The same for the objects that a watch describes.
    pub fn syncing_of(
        name: &str,
        primary: Watch<K>,
        sync: impl for<'a> Fn(&K, &Children<'a>) -> Result<DesiredState> + Send + std::marker::Sync + 'static,
    ) -> Self {
        let reconciler = Sync { set: name.to_owned(), dynamic: primary.dynamic().clone(), sync };
        Self::of(name, primary, reconciler)
    }
}
