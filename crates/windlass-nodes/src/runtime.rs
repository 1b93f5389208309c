//! The interface to the runtime that runs the pods of a node.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use windlass::{Result, controller::Trigger, key::ObjectKey};

use super::Kubelet;

/// Condition for syncing a pod again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// When the pod changes, or the runtime [requests](PodRuntime::attach) it.
    Wait,
    /// After this time.
    After(Duration),
}

/// Runs the pods of nodes. The [`Kubelet`] calls it and performs its writes.
///
/// It is never called concurrently for the same pod, and may be called at any time without a change.
pub(crate) trait PodRuntime: Send + Sync + 'static {
    /// Called first, with a trigger that requests a call of [`sync`](Self::sync), for example when a process has ended.
    fn attach(&self, wake: Trigger) {
        let _ = wake;
    }

    /// Moves a pod towards its desired state: it is new or has changed, the trigger fired, or the requested time has
    /// passed. A terminating pod is [removed](Kubelet::remove) by the runtime once nothing of it runs.
    fn sync<'a>(&'a self, pod: Arc<Pod>, kubelet: &'a Kubelet) -> BoxFuture<'a, Result<Next>>;

    /// Called when a pod has been deleted from the server, whether its containers have ended or not.
    fn deleted(&self, pod: &ObjectKey);
}
