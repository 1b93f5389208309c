//! Deployments: replica sets that follow each other.
//!
//! A look at a deployment is pure: [`Rollout`](rollout::Rollout) takes the deployment and its replica sets and says what
//! they should be. What it says is then written, each object at most once, and the deployment's status last.

mod annotations;
mod arithmetic;
mod conditions;
mod progress;
mod reconcile;
mod rollback;
mod rollout;
mod template;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use windlass::{
    context::Context, controller::Watch, key::ObjectKey, object::Object, objects::owner::controller_of,
    operator::Operator,
};

use crate::{loops::ClusterCertificates, pods};

/// How many are looked at at a time. Each waits for the server most of the time.
const CONCURRENCY: usize = 16;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let controller = super::controller("deployment-controller", reconcile::reconcile)
        .watches::<ReplicaSet>(pods::parents::<Deployment, ReplicaSet>)
        .source(Watch::<Pod>::new().map(waiting_for))
        .concurrency(CONCURRENCY);
    operator.controller(controller)
}

/// The deployment that makes nothing new before this pod is gone.
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

/// Whether pods are replaced a few at a time.
fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()).unwrap_or("RollingUpdate") == "RollingUpdate"
}
