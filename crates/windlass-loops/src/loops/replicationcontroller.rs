//! Keeps the desired number of pods of each replication controller.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use windlass::{Result, context::Context, controller::Action, operator::Operator};

use super::{ClusterCertificates, controller};
use crate::{pods, replicas};

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let controller = controller("replicationcontroller-controller", reconcile)
        .watches::<Pod>(pods::parents::<ReplicationController, Pod>)
        .concurrency(replicas::CONCURRENCY)
        .reporter("replication-controller");
    operator.controller(controller)
}

async fn reconcile(parent: Arc<ReplicationController>, ctx: Context) -> Result<Action> {
    replicas::reconcile(parent, ctx).await
}
