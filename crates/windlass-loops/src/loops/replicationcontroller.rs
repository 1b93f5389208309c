//! Replication controllers: what replica sets were before they had that name.

use k8s_openapi::api::core::v1::ReplicationController;
use windlass::operator::Operator;

use super::{ClusterCertificates, replicaset};

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let controller = replicaset::controller::<ReplicationController>("replicationcontroller-controller");
    operator.controller(controller.reporter("replication-controller"))
}
