//! Pods that nobody else would remove.
//!
//! Of those that have ended, so many are kept for people to look at, and the oldest of the rest go. Pods of a node that
//! is gone go, too: its kubelet cannot say what has become of them. So do pods that are to go and that no kubelet will
//! let go: those without a node, and those of a node that is out of service.
//!
//! Nothing here is urgent: all pods are looked at once in a while, as the real one does. A node that is not there may be
//! on its way, so it has some time to come.

mod selection;

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{DeleteParams, Patch},
};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};
use windlass::{Result, context::Context, key::ObjectKey, operator::Operator, scope::Scope, shutdown::Shutdown};

use self::selection::{Doomed, Quarantine, of_nodes, out_of_service, surplus, unscheduled};
use super::ClusterCertificates;
use crate::pods::{disruption_target, phase};

/// How often pods are looked at.
const PERIOD: Duration = Duration::from_secs(20);
/// How many pods that have ended are kept.
const KEPT: usize = 12_500;
/// How many pods may be on their way out at a time.
const CONCURRENCY: usize = 32;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    operator.leader_task("pod-garbage-collector-controller", run)
}

async fn run(ctx: Context, shutdown: Shutdown) -> Result<()> {
    let nodes = ctx.caches().informer::<Node>(&Scope::all());
    let pods = ctx.caches().informer::<Pod>(&Scope::all());
    let mut quarantine = Quarantine::default();
    let passes = async {
        nodes.synced().await;
        pods.synced().await;
        let mut timer = interval(PERIOD);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            reconcile(&ctx, &mut quarantine, &pods.list(), &nodes.list()).await;
        }
    };
    tokio::select! {
        () = passes => {}
        () = shutdown.draining() => {}
    }
    Ok(())
}

async fn reconcile(ctx: &Context, quarantine: &mut Quarantine, pods: &[Arc<Pod>], nodes: &[Arc<Node>]) {
    remove(ctx, &surplus(pods, KEPT)).await;
    remove(ctx, &out_of_service(pods, nodes)).await;
    let gone = gone(ctx, quarantine.pass(pods, nodes, Instant::now())).await;
    remove(ctx, &of_nodes(pods, &gone)).await;
    remove(ctx, &unscheduled(pods)).await;
}

/// Those of the nodes that the server does not know either.
async fn gone(ctx: &Context, missing: Vec<String>) -> HashSet<String> {
    let nodes: Api<Node> = ctx.api_all();
    let mut gone = HashSet::new();
    for name in missing {
        match nodes.get_metadata_opt(&name).await {
            Ok(None) => drop(gone.insert(name)),
            Ok(Some(_)) => {}
            Err(error) => tracing::debug!(node = name, %error, "a node could not be asked for"),
        }
    }
    gone
}

/// Removes pods, several at a time. What fails is tried again with the next pass.
async fn remove(ctx: &Context, doomed: &[Doomed<'_>]) {
    // One that has been removed as far as that can be waits for its finalizers.
    let left = doomed.iter().filter(|doomed| {
        let ended = matches!(phase(doomed.pod), "Succeeded" | "Failed");
        !ended || doomed.pod.metadata.deletion_grace_period_seconds != Some(0)
    });
    let removals = stream::iter(left).for_each_concurrent(CONCURRENCY, async |doomed| {
        if let Err(error) = remove_one(ctx, doomed).await {
            tracing::warn!(%error, "a pod could not be removed");
        }
    });
    removals.await;
}

async fn remove_one(ctx: &Context, Doomed { pod, orphaned }: &Doomed<'_>) -> Result<()> {
    if !matches!(phase(pod), "Succeeded" | "Failed") {
        // Nobody else would ever say that it has ended, and whoever counts on it waits for that.
        let mut status = json!({"phase": "Failed", "observedGeneration": pod.metadata.generation});
        let now = windlass_clock::now_in_seconds();
        let why = orphaned.then(|| disruption_target(pod, "DeletionByPodGC", "PodGC: node no longer exists", now));
        if let Some(condition) = why.flatten() {
            status["conditions"] = json!([condition]);
        }
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
        ctx.kind::<Pod>().patch_status(&ObjectKey::of(pod.as_ref()), &Patch::Strategic(patch)).await?;
    }
    match ctx.delete_with(*pod, &DeleteParams::default().grace_period(0)).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}
