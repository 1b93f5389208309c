//! What a reconcile reads and writes with.
//!
//! **Reads** come from the caches of the kinds that the controller watches, and start no watch: asking for any other
//! kind is an [error that says what to do](ContextError::NotWired). [`Context::live`] reads from the server.
//!
//! **Writes** are sent only while this process [leads](crate::lease::Leadership) and the object that is being
//! reconciled is [its own](crate::lease::Shard), carry the controller's field manager, and are registered with the
//! caches, so that what a reconcile has written is what the next one reads. An apply or a status that would change
//! nothing is not sent.

use kube::Client;

use crate::{cache::Caches, events::Recorder, key::ObjectKey, lease::Leadership, metrics::Metrics};

pub(crate) mod any;
mod apply;
mod error;
mod event;
mod finalizers;
mod intent;
mod kind;
mod live;
mod set;
mod status;
mod typed;
mod wired;
mod write;
mod writes;

pub use apply::Existing;
pub use error::{ContextError, Verb};
pub use event::EventAbout;
pub use kind::Kind;
pub use live::Live;
pub use set::{Desired, SET_LABEL, SetOutcome};
pub use wired::Wired;
pub(crate) use writes::Writes;

/// What controllers of a process share. A cheap handle.
#[derive(Clone)]
pub struct Parts {
    /// The client, for what is not cached.
    pub client: Client,
    /// The informers.
    pub caches: Caches,
    /// Where events go.
    pub events: Recorder,
    /// Where numbers go.
    pub metrics: Metrics,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Which keys are this process's.
    pub shard: crate::lease::Shard,
    /// The field manager of writes, as `foo-operator`; those of a controller have its name after it, as
    /// `foo-operator/foo`.
    pub field_manager: std::sync::Arc<str>,
}

#[cfg(test)]
impl Parts {
    /// Parts of a process without informers, for tests.
    pub(crate) fn of_test(client: Client, leadership: Leadership) -> Self {
        Self {
            caches: Caches::new(client.clone()),
            events: Recorder::new(client.clone(), "test", "test"),
            metrics: Metrics::new(),
            leadership,
            shard: crate::lease::Shard::whole(),
            field_manager: "test".into(),
            client,
        }
    }
}

/// What a reconcile reads and writes with. A cheap handle, made for each reconcile.
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
    /// Shared: a client alone is costly to clone for each reconcile.
    parts: std::sync::Arc<Parts>,
    wired: Wired,
    writes: Writes,
    /// What is being reconciled; none outside of reconciles.
    primary: Option<ObjectKey>,
}

impl Context {
    /// A context over the parts, that reads the kinds that are wired.
    pub fn new(parts: Parts, wired: Wired) -> Self {
        Self { parts: std::sync::Arc::new(parts), wired, writes: Writes::default(), primary: None }
    }

    /// The same for the work on one key: writes are refused, with [`ContextError::KeyLost`], from the moment when the
    /// key is not this process's any more. Reconciles get such a context.
    #[must_use]
    pub fn for_key(&self, key: &ObjectKey) -> Self {
        Self { primary: Some(key.clone()), ..self.clone() }
    }

    /// The parts it is made of.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The writes that are on their way.
    pub(crate) fn writes(&self) -> &Writes {
        &self.writes
    }

    /// The kinds that can be read from a cache.
    pub fn wired(&self) -> &Wired {
        &self.wired
    }

    /// The client, for what has no method here. Its writes are not registered with the caches and are sent whoever
    /// leads.
    pub fn client(&self) -> Client {
        self.parts.client.clone()
    }

    /// Reads from the server instead of the caches.
    pub fn live(&self) -> Live<'_> {
        Live::new(self)
    }
}
