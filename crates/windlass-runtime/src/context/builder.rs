//! Construction of contexts outside of a running operator.

use std::{sync::Arc, time::Duration};

use kube::Client;

use super::{Context, REQUEST_TIMEOUT, SharedHandles, WatchedKinds};
use crate::{
    access::Denials,
    cache::Caches,
    events::Recorder,
    lease::{Leadership, Shard},
    metrics::Metrics,
};

/// Builder for a [`Context`], for tests of reconcilers and for controllers that run without an
/// [operator](crate::operator::Operator).
///
/// ```no_run
/// use windlass_runtime::context::Context;
///
/// # fn example(client: kube::Client) {
/// let ctx = Context::builder(client).field_manager("my-test").build();
/// # }
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct ContextBuilder {
    pub(super) handles: SharedHandles,
    pub(super) watched_kinds: WatchedKinds,
}

impl ContextBuilder {
    pub(super) fn new(client: Client) -> Self {
        let handles = SharedHandles {
            caches: Caches::new(client.clone()),
            events: Recorder::new(client.clone(), "windlass", "windlass"),
            metrics: Metrics::new(),
            leadership: Leadership::always(),
            shard: Shard::whole(),
            field_manager: "windlass".into(),
            controller: None,
            denials: Denials::default(),
            planning: false,
            request_timeout: REQUEST_TIMEOUT,
            client,
        };
        Self { handles, watched_kinds: WatchedKinds::new() }
    }

    /// Sets the client for requests that bypass the caches.
    pub fn client(mut self, client: Client) -> Self {
        self.handles.client = client;
        self
    }

    /// Sets the informer caches. By default, the context gets caches of its own.
    pub fn caches(mut self, caches: Caches) -> Self {
        self.handles.caches = caches;
        self
    }

    /// Sets the recorder of events. By default, events are reported by `windlass`.
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.handles.events = recorder;
        self
    }

    /// Sets the metrics registry. By default, the context gets one of its own.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.handles.metrics = metrics;
        self
    }

    /// Sets the leader election that guards writes. By default, this process always leads.
    pub fn leadership(mut self, leadership: Leadership) -> Self {
        self.handles.leadership = leadership;
        self
    }

    /// Sets the share of keys that this process reconciles. By default, it reconciles all keys.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.handles.shard = shard;
        self
    }

    /// Sets the field manager of writes; `windlass` by default. A controller appends its own name: `foo-operator/foo`.
    pub fn field_manager(mut self, name: impl Into<Arc<str>>) -> Self {
        self.handles.field_manager = name.into();
        self
    }

    /// Sets the time limit of requests; 65 seconds by default. See
    /// [`Operator::request_timeout`](crate::operator::Operator::request_timeout).
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.handles.request_timeout = limit;
        self
    }

    /// Returns the context.
    #[must_use]
    pub fn build(self) -> Context {
        Context::new(self.handles, self.watched_kinds)
    }
}
