//! Reads and writes of reconcilers.
//!
//! **Reads** come from the caches of the kinds that the controller watches. They never start a watch: reading any other
//! kind is an [error that explains what to do](ContextError::NotWatched). [`Context::live`] reads from the API server.
//!
//! **Writes** are sent only while this process [leads](crate::lease::Leadership) and the object that is being
//! reconciled belongs to [its shard](crate::lease::Shard). They carry the controller's field manager, and are
//! registered with the caches, so that the next reconcile reads what this one has written. An apply or a status that
//! would change nothing is not sent.
//!
//! **Every request has a time limit**, 65 seconds unless
//! [another is set](crate::operator::Operator::request_timeout). A write without response may have happened: its outcome
//! is looked up, and the object is not reconciled again before it is known.

use std::{sync::Arc, time::Duration};

use kube::Client;

use crate::{
    access::Denials,
    cache::{Caches, Informer},
    controller::{Attempt, Cause, Report},
    events::Recorder,
    key::ObjectKey,
    lease::{Leadership, Shard},
    metrics::Metrics,
    object::Object,
    scope::Scope,
};

pub(crate) mod any_kind;
mod apply;
mod builder;
mod delete_all;
mod edit_status;
mod error;
mod event;
#[cfg(feature = "ws")]
mod exec;
mod finalizers;
mod first_apply;
mod intent;
mod kind;
mod live;
mod look_up;
mod namespaced;
mod ownership;
mod set;
mod status;
mod subresources;
mod typed;
mod watched_kinds;
mod write;
mod write_options;
mod writes;

pub use apply::AdoptionPolicy;
pub use builder::ContextBuilder;
pub use error::{ContextError, Reader, Verb};
pub use event::EventBuilder;
#[cfg(feature = "ws")]
pub use exec::{Exec, ExecOutput};
pub use kind::Kind;
pub use live::LiveReader;
pub use namespaced::{Namespaced, NamespacedContext};
pub use set::{Child, ChildId, Desired, SET_LABEL, SET_ORDER, SetOutcome};
pub(crate) use watched_kinds::{WatchLease, WatchedKinds};
use write_options::WriteOptions;
pub(crate) use writes::InFlightWrites;

/// Time limit of a request, unless another is set: longer than that of the API server, whose response tells more.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// Handles that all controllers and tasks of a process share.
#[derive(Clone)]
pub(crate) struct SharedHandles {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) events: Recorder,
    pub(crate) metrics: Metrics,
    /// Whether this process may write.
    pub(crate) leadership: Leadership,
    /// The keys that this process reconciles.
    pub(crate) shard: Shard,
    /// The field manager of the operator, `foo-operator`. Each controller appends its own name: `foo-operator/foo`.
    pub(crate) field_manager: Arc<str>,
    /// The controller; `None` outside of controllers.
    pub(crate) controller: Option<Arc<str>>,
    /// Requests that no role allows.
    pub(crate) denials: Denials,
    /// Whether nothing is written.
    pub(crate) planning: bool,
    /// Time limit of a request, and of looking up what has become of a write without response.
    pub(crate) request_timeout: Duration,
}

impl SharedHandles {
    /// Returns handles whose requests and events use another client.
    pub(crate) fn with_client(self, client: &Client) -> Self {
        let own = client.clone();
        let events = self.events.with_client(move || own.clone());
        Self { client: client.clone(), events, ..self }
    }
}

#[cfg(test)]
impl SharedHandles {
    pub(crate) fn for_test(client: Client, leadership: Leadership) -> Self {
        let builder = Context::builder(client).field_manager("test").leadership(leadership);
        builder.handles
    }
}

/// Reads and writes of a reconcile. A cheap handle that is created for each reconcile.
///
/// ```no_run
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// use windlass_runtime::{Result, context::Context};
///
/// async fn reconcile(parent: &ConfigMap, ctx: &Context) -> Result<()> {
///     let mut child = Deployment::default();
///     child.metadata.name = parent.metadata.name.clone();
///     let child = ctx.apply_owned(parent, child).await?;
///     let ready = child.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
///     ctx.event(parent).normal("Synced", &format!("{ready} replicas are ready"));
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Context {
    /// Shared, as cloning a client for each reconcile would be expensive.
    handles: Arc<SharedHandles>,
    watched_kinds: WatchedKinds,
    writes: InFlightWrites,
    /// The object that is being reconciled; `None` outside of reconciles.
    primary: Option<ObjectKey>,
    attempt: Attempt,
    options: WriteOptions,
}

impl Context {
    /// Returns a builder for contexts outside of an operator: in tests, or for a controller that is [run by
    /// hand](crate::controller::Controller::run).
    pub fn builder(client: Client) -> ContextBuilder {
        ContextBuilder::new(client)
    }

    /// Returns a builder with everything that this context has, to change parts of it. The new context is not bound to
    /// a key.
    pub fn to_builder(&self) -> ContextBuilder {
        ContextBuilder { handles: (*self.handles).clone(), watched_kinds: self.watched_kinds.clone() }
    }

    pub(crate) fn new(handles: SharedHandles, watched_kinds: WatchedKinds) -> Self {
        Self {
            handles: Arc::new(handles),
            watched_kinds,
            writes: InFlightWrites::default(),
            primary: None,
            attempt: Attempt::default(),
            options: WriteOptions::default(),
        }
    }

    /// Returns a context for the work on one key. It rejects writes with [`ContextError::KeyLost`] as soon as the key
    /// belongs to another process. Reconciles get such a context.
    #[must_use]
    pub fn for_key(&self, key: &ObjectKey) -> Self {
        Self { primary: Some(key.clone()), ..self.clone() }
    }

    /// Returns a context for an attempt to reconcile a key.
    pub(crate) fn for_attempt(&self, key: &ObjectKey, attempt: &Attempt) -> Self {
        Self { primary: Some(key.clone()), attempt: attempt.clone(), ..self.clone() }
    }

    /// Returns the number of consecutive failures of the object before this reconcile: 0 at first, and after each
    /// success. They are lost when the process restarts.
    pub fn attempts(&self) -> u32 {
        self.attempt.failures
    }

    /// Returns why this reconcile runs. Only for logs, metrics and debugging: events may be merged, and are lost when
    /// the process restarts, so a reconcile must look at the state. At most eight watched objects are listed.
    pub fn causes(&self) -> Vec<Cause> {
        self.attempt.causes.list()
    }

    /// Returns whether this is a [plan](crate::operator::Operator::plan), in which nothing is written. A reconciler
    /// that changes other systems must not do so then.
    pub fn is_plan(&self) -> bool {
        self.handles.planning
    }

    /// Returns the state that the [daemon](crate::controller::Daemon) of the object has last reported, if it has this
    /// type.
    pub fn reported<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.attempt.report.clone()?.downcast().ok()
    }

    /// Adds the state that the daemon of the object has reported.
    pub(crate) fn with_report(mut self, report: Option<Report>) -> Self {
        self.attempt.report = report;
        self
    }

    pub(crate) fn handles(&self) -> &SharedHandles {
        &self.handles
    }

    pub(crate) fn watched_kinds(&self) -> &WatchedKinds {
        &self.watched_kinds
    }

    pub(crate) fn writes(&self) -> &InFlightWrites {
        &self.writes
    }

    /// Makes a kind readable through this context and its clones, from an informer. Kinds that a controller watches are
    /// readable without it. `scope` must be the scope of the informer.
    pub fn add_informer<K: Object>(&self, dynamic: &K::DynamicType, scope: &Scope, informer: Informer<K>) {
        self.watched_kinds.insert(dynamic, scope, informer);
    }

    /// Returns the client, for requests that have no method here. Its writes bypass the caches and the check of
    /// leadership.
    pub fn client(&self) -> Client {
        self.handles.client.clone()
    }

    /// Returns the informer caches of the process.
    pub fn caches(&self) -> &Caches {
        &self.handles.caches
    }

    /// Returns the recorder of events. [`Context::event`] is the short form for events about one object.
    pub fn recorder(&self) -> &Recorder {
        &self.handles.events
    }

    /// Returns the metrics registry of the process.
    pub fn metrics(&self) -> &Metrics {
        &self.handles.metrics
    }

    /// Returns the leader election that guards writes.
    pub fn leadership(&self) -> &Leadership {
        &self.handles.leadership
    }

    /// Returns the share of keys that this process reconciles.
    pub fn shard(&self) -> &Shard {
        &self.handles.shard
    }

    /// Returns the field manager of writes.
    pub fn field_manager(&self) -> &str {
        &self.handles.field_manager
    }

    /// Returns a reader that reads from the API server instead of the caches.
    pub fn live(&self) -> LiveReader<'_> {
        LiveReader::new(self)
    }
}
