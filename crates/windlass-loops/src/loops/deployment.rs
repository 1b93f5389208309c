//! Rolls out deployments through replica sets.
//!
//! The decision is pure: [`Rollout`](rollout::Rollout) takes the deployment and its replica sets and computes their
//! desired state. The result is then written, each object at most once, and the deployment's status last.

mod annotations;
mod arithmetic;
mod conditions;
mod progress;
mod rollback;
mod rollout;
mod template;

use std::sync::Arc;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::api::DeleteParams;
use windlass::{
    Result,
    context::Context,
    controller::{Action, Watch},
    key::ObjectKey,
    object::Object,
    objects::owner::{self, controller_of, controller_reference},
    operator::Operator,
};

use self::{
    progress::replicas,
    rollback::Outcome,
    rollout::{Next, Rollout},
};
use super::ClusterCertificates;
use crate::{
    errors::server_message,
    pods::{self, Children},
};

/// Number of deployments that are reconciled at the same time. Each mostly waits for the server.
const CONCURRENCY: usize = 16;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let controller = super::controller("deployment-controller", reconcile)
        .watches::<ReplicaSet>(pods::parents::<Deployment, ReplicaSet>)
        .source(Watch::<Pod>::new().map(waiting_for))
        .concurrency(CONCURRENCY);
    operator.controller(controller)
}

/// The deployment that waits for this pod to be deleted before it creates new ones.
fn waiting_for(pod: &Pod, ctx: &Context) -> Vec<ObjectKey> {
    let leaving = pods::is_terminating(pod) || !pods::is_active(pod);
    let found = || {
        let set: ObjectKey = controller_key(pod, "ReplicaSet")?;
        let deployment = controller_key(&*ctx.get::<ReplicaSet>(&set).ok()??, "Deployment")?;
        let recreates = !is_rolling(&*ctx.get::<Deployment>(&deployment).ok()??);
        recreates.then_some(deployment)
    };
    if leaving { found().into_iter().collect() } else { Vec::new() }
}

fn controller_key<K: Object>(child: &K, kind: &str) -> Option<ObjectKey> {
    let owner = controller_of(child.meta()).filter(|owner| owner.kind == kind)?;
    Some(ObjectKey::namespaced(child.meta().namespace.as_deref()?, &owner.name))
}

/// Returns whether the strategy is `RollingUpdate`.
fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()).unwrap_or("RollingUpdate") == "RollingUpdate"
}

/// Moves a deployment's replica sets towards the desired state.
async fn reconcile(deployment: Arc<Deployment>, ctx: Context) -> Result<Action> {
    let Some(spec) = &deployment.spec else { return Ok(Action::done()) };
    if spec.selector == LabelSelector::default() {
        return reject(&deployment, &ctx).await;
    }
    let children = Children::<ReplicaSet>::selected(&spec.selector)?;
    let sets = children.claim(&ctx, &*deployment, pods::candidates(&ctx, &*deployment)?).await?;
    let now = windlass_clock::now_in_seconds();
    let mut rollout = Rollout::new(&deployment, sets, now);
    if deployment.metadata.deletion_timestamp.is_some() {
        rollout.only_count();
        return write(&deployment, &ctx, rollout).await;
    }
    let paused = spec.paused.unwrap_or_default();
    if let Some(revision) = rollback::asked_for(&deployment).filter(|_| !paused) {
        return roll_back(&deployment, &ctx, rollback::outcome(&deployment, &rollout.sets, revision)).await;
    }
    let owner = controller_reference(&*deployment)?;
    let runs_pods = |set: &ReplicaSet| {
        let pods: Vec<Arc<Pod>> = ctx.owned(set).unwrap_or_default();
        pods.iter().any(|pod| !matches!(pods::phase(pod), "Succeeded" | "Failed"))
    };
    while let Next::Create(set) = rollout.decide(&owner, &runs_pods) {
        if let Some(action) = create(&deployment, &ctx, &mut rollout, *set).await? {
            return Ok(action);
        }
    }
    write(&deployment, &ctx, rollout).await
}

/// Rejects a deployment that selects all pods of a namespace.
async fn reject(deployment: &Arc<Deployment>, ctx: &Context) -> Result<Action> {
    let note = "This deployment is selecting all pods. A non-empty selector is required.";
    ctx.event(deployment).warning("SelectingAll", note);
    let mut seen = Deployment::clone(deployment);
    let generation = seen.metadata.generation;
    let status = seen.status.get_or_insert_default();
    if status.observed_generation < generation {
        status.observed_generation = generation;
        ctx.update_status(seen).await?;
    }
    Ok(Action::done())
}

/// Writes the outcome of a requested rollback.
async fn roll_back(deployment: &Arc<Deployment>, ctx: &Context, outcome: Outcome) -> Result<Action> {
    let Outcome { deployment: wanted, event: (well, reason, note) } = outcome;
    ctx.update(wanted).await?;
    match well {
        true => ctx.event(deployment).normal(reason, &note),
        false => ctx.event(deployment).warning(reason, &note),
    }
    Ok(Action::done())
}

/// Creates a replica set and adds it to the rollout. A returned action ends the reconciliation.
async fn create(
    deployment: &Arc<Deployment>,
    ctx: &Context,
    rollout: &mut Rollout,
    set: ReplicaSet,
) -> Result<Option<Action>> {
    let (key, size) = (ObjectKey::of(&set), replicas(&set));
    let error = match ctx.create(set).await {
        Ok(created) => {
            if size > 0 {
                let note = format!("Scaled up replica set {} from 0 to {size}", key.name());
                ctx.event(deployment).normal("ScalingReplicaSet", &note);
            }
            rollout.add(created, true);
            return Ok(None);
        }
        Err(error) => error,
    };
    if error.is_already_exists() {
        let Some(there) = ctx.live().get::<ReplicaSet>(&key).await? else { return Err(error.into()) };
        let templates = there.spec.as_ref().and_then(|spec| spec.template.as_ref()).zip(deployment.spec.as_ref());
        if owner::is_controlled_by(&there, &**deployment)
            && templates.is_some_and(|(own, spec)| template::same(own, &spec.template))
        {
            rollout.add(Arc::new(there), false);
            return Ok(None);
        }
        // The write triggers another reconciliation, with another hash.
        rollout.collided();
        ctx.update_status(rollout.deployment.clone()).await?;
        return Ok(Some(Action::done()));
    }
    if error.is_namespace_terminating() {
        return Ok(Some(Action::done()));
    }
    let note = format!("Failed to create new replica set \"{}\": {}", key.name(), server_message(&error));
    rollout.not_created(&note);
    ctx.event(deployment).warning("ReplicaSetCreateError", &note);
    if rollout.deployment.status != deployment.status {
        ctx.update_status(rollout.deployment.clone()).await?;
    }
    Err(error.into())
}

/// Writes changed replica sets, deletes surplus ones, and writes the deployment's status.
async fn write(deployment: &Arc<Deployment>, ctx: &Context, rollout: Rollout) -> Result<Action> {
    for (present, wanted) in rollout.changed() {
        ctx.update(wanted.clone()).await?;
        let (before, after) = (replicas(present), replicas(wanted));
        if before != after {
            let direction = if before < after { "up" } else { "down" };
            let name = wanted.metadata.name.as_deref().unwrap_or_default();
            let note = format!("Scaled {direction} replica set {name} from {before} to {after}");
            ctx.event(deployment).normal("ScalingReplicaSet", &note);
        }
    }
    for set in &rollout.surplus {
        ctx.delete_with(set, &DeleteParams::default()).await?;
    }
    let wanted = rollout.deployment;
    let again = wanted.status.as_ref().and_then(|status| progress::look_again(&wanted, status, windlass_clock::now()));
    if wanted != **deployment {
        ctx.update_status(wanted).await?;
    }
    Ok(again.map_or_else(Action::done, Action::requeue_after))
}
