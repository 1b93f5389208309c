//! Evicts pods from nodes with a `NoExecute` taint that they do not tolerate: immediately, or when the toleration
//! period is over.

mod tolerated;

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use windlass::{
    Result,
    context::Context,
    controller::{
        Action, Reconciler, Watch,
        filter::{Change, Filter},
    },
    events::EventType,
    key::ObjectKey,
    operator::Operator,
};

use self::tolerated::{Stay, concerns, no_execute, stay};
use super::{ClusterCertificates, controller};
use crate::pods::{by_node, disruption_target, node_of};

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let evictions = Evictions::default();
    let scheduled = evictions.scheduled.clone();
    let tainted = Filter::new(|change: &Change<'_, Node>| change.old.map(no_execute) != change.new.map(no_execute));
    let controller = controller::<Pod>("taint-eviction-controller", evictions)
        .filter(Filter::new(concerns))
        .source(Watch::<Node>::new().filter(tainted).map(pods_on))
        .concurrency(8)
        .on_deleted(move |key, ctx| {
            let cancelled = scheduled.lock().remove(&key).is_some();
            async move {
                if cancelled {
                    record(&ctx, &key, "Cancelling deletion of");
                }
                Ok(())
            }
        });
    operator.controller(controller)
}

fn pods_on(node: &Node, ctx: &Context) -> Vec<ObjectKey> {
    let Ok(pods) = ctx.informer::<Pod>() else { return Vec::new() };
    by_node(&pods).get(&node.name_any()).iter().map(|pod| ObjectKey::of(pod.as_ref())).collect()
}

/// Scheduled evictions of pods.
#[derive(Default)]
struct Evictions {
    scheduled: Arc<Mutex<HashMap<ObjectKey, ScheduledEviction>>>,
}

/// A scheduled eviction. Its time does not change with the taints and tolerations, as long as the pod has to be evicted
/// at some time.
#[derive(Clone)]
struct ScheduledEviction {
    uid: Option<String>,
    /// `None` is later than any time.
    at: Option<Instant>,
}

impl Reconciler<Pod> for Evictions {
    async fn reconcile(&self, pod: Arc<Pod>, ctx: Context) -> Result<Action> {
        let Some(node) = node_of(&pod) else { return Ok(Action::done()) };
        // The taints of a deleted node are unknown; a scheduled eviction stays.
        let Some(node) = ctx.get::<Node>(&ObjectKey::cluster(node))? else { return Ok(self.wait(&pod)) };
        let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
        let key = ObjectKey::of(pod.as_ref());
        match stay(tolerations, &no_execute(&node)) {
            Stay::Forever => {
                self.cancel(&key, &ctx);
                Ok(Action::done())
            }
            Stay::NoLonger => {
                self.cancel(&key, &ctx);
                evict(&pod, &key, &ctx).await
            }
            Stay::For(time) => match self.eviction(&pod, time).at {
                Some(at) if at <= Instant::now() => {
                    let evicted = evict(&pod, &key, &ctx).await?;
                    self.scheduled.lock().remove(&key);
                    Ok(evicted)
                }
                _ => Ok(self.wait(&pod)),
            },
        }
    }
}

impl Evictions {
    /// The scheduled eviction of a pod, which is created if necessary.
    fn eviction(&self, pod: &Pod, time: Duration) -> ScheduledEviction {
        let mut scheduled = self.scheduled.lock();
        let new = || ScheduledEviction { uid: pod.metadata.uid.clone(), at: Instant::now().checked_add(time) };
        let entry = scheduled.entry(ObjectKey::of(pod)).or_insert_with(new);
        if entry.uid != pod.metadata.uid {
            *entry = new();
        }
        entry.clone()
    }

    /// Requeues the pod for the time of its eviction.
    fn wait(&self, pod: &Pod) -> Action {
        let scheduled = self.scheduled.lock();
        let at = scheduled.get(&ObjectKey::of(pod)).and_then(|eviction| eviction.at);
        at.map_or_else(Action::done, |at| Action::requeue_after(at.saturating_duration_since(Instant::now())))
    }

    fn cancel(&self, key: &ObjectKey, ctx: &Context) {
        if self.scheduled.lock().remove(key).is_some() {
            record(ctx, key, "Cancelling deletion of");
        }
    }
}

/// Evicts a pod, with a condition that states the reason.
async fn evict(pod: &Pod, key: &ObjectKey, ctx: &Context) -> Result<Action> {
    record(ctx, key, "Marking for deletion");
    let message = "Taint manager: deleting due to NoExecute taint";
    let now = windlass_clock::now_in_seconds();
    if let Some(condition) = disruption_target(pod, "DeletionByTaintManager", message, now) {
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        match ctx.kind::<Pod>().patch_status(key, &Patch::Strategic(patch)).await {
            Err(error) if error.is_not_found() => return Ok(Action::done()),
            written => drop(written?),
        }
    }
    match ctx.delete_with(pod, &DeleteParams::default()).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

fn record(ctx: &Context, key: &ObjectKey, what: &str) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(key.name().to_owned()),
        namespace: key.namespace().map(str::to_owned),
        ..ObjectReference::default()
    };
    let note = format!("{what} Pod {}/{}", key.namespace().unwrap_or_default(), key.name());
    ctx.recorder().record(&about, EventType::Normal, "TaintManagerEviction", "", &note);
}
