//! The scheduler: assigns pods to nodes.
//!
//! Informer events keep its state current; a decision looks at nodes and equivalence classes of pods, never at all
//! pods. A pod with a decision counts as placed while its binding is being sent to the server.

mod cluster;
mod decide;
mod pending;
mod pod_affinity;
mod preempt;
mod requirements;
mod resources;
mod room;
mod score;
mod state;
mod topology_spread;

use std::sync::Arc;

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use windlass::{
    Result, cache::Event, context::Context, events::EventType, key::ObjectKey, operator::Operator, scope::Scope,
    shutdown::Shutdown,
};
use windlass_clock::now_in_seconds;

pub(super) use self::room::{Shortage, shortage};
use self::state::{PreemptionVictims, State, Step};

/// The scheduler name in pod specs and events.
const NAME: &str = "default-scheduler";
const FIELD_MANAGER: &str = "kube-scheduler";
/// Number of bindings in flight.
const CONCURRENCY: usize = 64;

/// Adds the scheduler.
pub(super) fn add(operator: Operator) -> Operator {
    operator.leader_task("scheduler", run)
}

async fn run(ctx: Context, shutdown: Shutdown) -> Result<()> {
    let shared = Arc::new(Shared { state: Mutex::default(), changed: Notify::new() });
    let nodes = ctx.caches().informer::<Node>(&Scope::all());
    let namespaces = ctx.caches().informer::<Namespace>(&Scope::all());
    let claims = ctx.caches().informer::<PersistentVolumeClaim>(&Scope::all());
    let pods = ctx.caches().informer::<Pod>(&Scope::all());
    let updated = shared.clone();
    let _nodes = nodes.subscribe(move |event| {
        updated.update(|state| match &event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => state.update_node(object),
            Event::Deleted { object } => state.remove_node(&object.name_any()),
        })
    });
    let updated = shared.clone();
    let _namespaces = namespaces.subscribe(move |event| {
        updated.update(|state| match &event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => state.update_namespace(object),
            Event::Deleted { object } => state.remove_namespace(&object.name_any()),
        })
    });
    let updated = shared.clone();
    let _claims = claims.subscribe(move |event| {
        updated.update(|state| match &event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => state.update_claim(object),
            Event::Deleted { object } => state.remove_claim(object),
        })
    });
    nodes.synced().await;
    namespaces.synced().await;
    claims.synced().await;
    let updated = shared.clone();
    let _pods = pods.subscribe(move |event| {
        updated.update(|state| match &event {
            Event::Added { object, .. } => state.update_pod(None, object),
            Event::Updated { old, new } => state.update_pod(Some(old), new),
            Event::Deleted { object } => state.remove_pod(object),
        })
    });
    pods.synced().await;
    tokio::select! {
        () = shared.work(&ctx) => Ok(()),
        () = shutdown.draining() => Ok(()),
    }
}

struct Shared {
    /// Locked for the duration of one event or decision.
    state: Mutex<State>,
    changed: Notify,
}

/// The result of a step.
struct Done {
    pod: Arc<Pod>,
    /// Whether to try the pod again.
    again: bool,
}

impl Shared {
    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_one();
    }

    async fn work(&self, ctx: &Context) {
        let mut steps = JoinSet::new();
        loop {
            let mut next_at = None;
            while steps.len() < CONCURRENCY {
                let mut state = self.state.lock();
                match state.next(Instant::now()) {
                    Some(step) => drop(steps.spawn(perform(ctx.clone(), step).boxed())),
                    None => {
                        next_at = state.next_at();
                        break;
                    }
                }
            }
            let due = async {
                match next_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(done) = steps.join_next() => {
                    if let Ok(Done { pod, again: true }) = done {
                        self.state.lock().binding_failed(&pod, Instant::now());
                    }
                }
                () = self.changed.notified() => {}
                () = due => {}
            }
        }
    }
}

async fn perform(ctx: Context, step: Step) -> Done {
    let pod = match &step {
        Step::Bind { pod, .. } | Step::Unschedulable { pod, .. } => pod.clone(),
    };
    let outcome = match step {
        Step::Bind { pod, node } => bind(&ctx, &pod, &node).await,
        Step::Unschedulable { pod, message, preemption } => {
            report_unschedulable(&ctx, &pod, &message, preemption.as_ref()).await.map(|()| false)
        }
    };
    let again = outcome.unwrap_or_else(|error| {
        tracing::debug!(%error, "failed to schedule a pod");
        true
    });
    Done { pod, again }
}

/// Binds a pod to a node. Returns whether to retry.
async fn bind(ctx: &Context, pod: &Pod, node: &str) -> Result<bool> {
    let key = ObjectKey::of(pod);
    let namespace = key.namespace().unwrap_or_default();
    let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(ctx.client(), namespace);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": key.name(), "namespace": namespace, "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match pods.create_subresource::<_, Value>("binding", key.name(), &params, &binding).await {
        Ok(_) => {
            let note = format!("Successfully assigned {namespace}/{} to {node}", key.name());
            record(ctx, pod, EventType::Normal, "Scheduled", "Binding", &note);
            Ok(false)
        }
        // The pod is deleted, terminating, or already bound; the watch will tell.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reports that a pod is unschedulable.
async fn report_unschedulable(
    ctx: &Context,
    pod: &Pod,
    message: &str,
    preemption: Option<&PreemptionVictims>,
) -> Result<()> {
    record(ctx, pod, EventType::Warning, "FailedScheduling", "Scheduling", message);
    if let Some(PreemptionVictims { node, victims }) = preemption {
        for (victim, uid) in victims {
            preempt(ctx, victim, uid, node, pod).await?;
        }
    }
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let present = conditions.into_iter().flatten().find(|condition| condition.type_ == "PodScheduled");
    let reported = present.is_some_and(|one| one.status == "False" && one.message.as_deref() == Some(message));
    if reported && preemption.is_none() {
        return Ok(());
    }
    let since =
        present.filter(|present| present.status == "False").and_then(|present| present.last_transition_time.clone());
    let since = since.map_or_else(now_in_seconds, |time| time.0);
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null, "lastTransitionTime": since.to_string(), "observedGeneration": pod.metadata.generation,
    });
    let mut status = json!({"conditions": [condition]});
    if let Some(preemption) = preemption {
        status["nominatedNodeName"] = preemption.node.as_str().into();
    }
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    let key = ObjectKey::of(pod);
    let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(ctx.client(), key.namespace().unwrap_or_default());
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    pods.patch_status(key.name(), &params, &Patch::Strategic(patch)).await?;
    Ok(())
}

/// Deletes a victim of preemption.
async fn preempt(ctx: &Context, victim: &ObjectKey, uid: &str, node: &str, by: &Pod) -> Result<()> {
    let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(ctx.client(), victim.namespace().unwrap_or_default());
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": format!("{NAME}: preempting to accommodate a higher priority pod"),
        "lastTransitionTime": now_in_seconds().to_string(),
    });
    let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patched = pods.patch_status(victim.name(), &params, &Patch::Strategic(patch)).await;
    let pod = match patched {
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
        patched => patched?,
    };
    let preemptor = by.metadata.uid.as_deref().unwrap_or_default();
    let note = format!("Preempted by pod {preemptor} on node {node}");
    record(ctx, &pod, EventType::Normal, "Preempted", "Preempting", &note);
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match pods.delete(victim.name(), &params).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => Ok(deleted.map(|_| ())?),
    }
}

fn record(
    ctx: &Context,
    pod: &impl Resource<DynamicType = ()>,
    kind: EventType,
    reason: &str,
    action: &str,
    note: &str,
) {
    let about = k8s_openapi::api::core::v1::ObjectReference {
        resource_version: pod.meta().resource_version.clone(),
        ..pod.object_ref(&())
    };
    ctx.recorder().reporting(NAME).record(&about, kind, reason, action, note);
}

#[cfg(test)]
mod tests;
