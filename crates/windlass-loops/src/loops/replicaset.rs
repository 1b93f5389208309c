//! Keeps the desired number of pods of each replica set.

use std::sync::Arc;

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use windlass::{Result, context::Context, controller::Action, operator::Operator};

use super::{ClusterCertificates, controller};
use crate::{pods, replicas};

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let controller = controller("replicaset-controller", reconcile)
        .watches::<Pod>(pods::parents::<ReplicaSet, Pod>)
        .concurrency(replicas::CONCURRENCY);
    operator.controller(controller)
}

async fn reconcile(parent: Arc<ReplicaSet>, ctx: Context) -> Result<Action> {
    replicas::reconcile(parent, ctx).await
}
