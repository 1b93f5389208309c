//! Replica sets, and replication controllers, which are the same but for their types: as many pods as are asked for.

mod parent;
mod reconcile;
mod status;

use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use windlass::{controller::Controller, operator::Operator};

use crate::{loops::ClusterCertificates, pods};
use parent::Parent;

/// How many are looked at at a time. Each waits for the server most of the time, and writes that wait together are
/// committed together.
const CONCURRENCY: usize = 16;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    operator.controller(controller::<ReplicaSet>("replicaset-controller"))
}

/// The controller of either kind.
pub(super) fn controller<K: Parent>(name: &str) -> Controller<K> {
    super::controller(name, reconcile::reconcile::<K>).watches::<Pod>(pods::parents::<K, Pod>).concurrency(CONCURRENCY)
}
