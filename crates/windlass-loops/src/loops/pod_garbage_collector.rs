//! Deletes pods that nothing else would remove.
//!
//! A number of terminated pods is kept for inspection, and the oldest beyond it are deleted. Pods of a deleted node are
//! deleted, because its kubelet cannot report their state anymore. So are terminating pods that no kubelet will remove:
//! those without a node, and those on a node that is out of service.
//!
//! Nothing here is urgent: all pods are checked periodically, as in kube-controller-manager. A missing node may still
//! be registered, so it gets some time.

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

use self::selection::{Quarantine, Removal, of_nodes, out_of_service, surplus, unscheduled};
use super::ClusterCertificates;
use crate::pods::{disruption_target, phase};

/// Interval at which pods are checked.
const PERIOD: Duration = Duration::from_secs(20);
/// Number of terminated pods that are kept.
const KEPT: usize = 12_500;
/// Number of concurrent deletions.
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

/// The missing nodes that the server does not have either.
async fn gone(ctx: &Context, missing: Vec<String>) -> HashSet<String> {
    let nodes: Api<Node> = ctx.api_all();
    let mut gone = HashSet::new();
    for name in missing {
        match nodes.get_metadata_opt(&name).await {
            Ok(None) => drop(gone.insert(name)),
            Ok(Some(_)) => {}
            Err(error) => tracing::debug!(node = name, %error, "failed to look up a node"),
        }
    }
    gone
}

/// Removes pods concurrently. Failed removals are retried in the next pass.
async fn remove(ctx: &Context, removals: &[Removal<'_>]) {
    // A pod that has been removed as far as possible waits for its finalizers.
    let left = removals.iter().filter(|removal| {
        let ended = matches!(phase(removal.pod), "Succeeded" | "Failed");
        !ended || removal.pod.metadata.deletion_grace_period_seconds != Some(0)
    });
    let removing = stream::iter(left).for_each_concurrent(CONCURRENCY, async |removal| {
        if let Err(error) = remove_one(ctx, removal).await {
            tracing::warn!(%error, "failed to remove a pod");
        }
    });
    removing.await;
}

async fn remove_one(ctx: &Context, Removal { pod, orphaned }: &Removal<'_>) -> Result<()> {
    if !matches!(phase(pod), "Succeeded" | "Failed") {
        // Nothing else would ever report that it has ended, and other loops wait for that.
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
