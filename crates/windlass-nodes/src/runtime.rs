//! What runs the pods of a node.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use windlass::{Result, controller::Trigger, key::ObjectKey};

use super::Kubelet;

/// What is to become of a pod for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until it changes, or until the runtime [asks](PodRuntime::attach) for it.
    Wait,
    /// Look again after a time.
    After(Duration),
}

/// What runs the pods of nodes. The [`Kubelet`] calls it and does its writes.
///
/// It is never called twice at a time for the same pod, and may be called at any time for no reason.
pub(crate) trait PodRuntime: Send + Sync + 'static {
    /// Is given, before everything else, what asks for a call of [`sync`](Self::sync) from elsewhere, as when a process
    /// has ended.
    fn attach(&self, wake: Trigger) {
        let _ = wake;
    }

    /// Brings a pod further: it is new, it has changed, somebody asked, or the time that was asked for has come. A pod
    /// that is being deleted is [removed](Kubelet::remove) by the runtime when nothing of it runs any more.
    fn sync<'a>(&'a self, pod: Arc<Pod>, kubelet: &'a Kubelet) -> BoxFuture<'a, Result<Next>>;

    /// A pod is gone from the server, whether it has ended or not.
    fn gone(&self, pod: &ObjectKey);
}
