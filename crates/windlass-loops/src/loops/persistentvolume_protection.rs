//! Keeps persistent volumes while they are bound.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use windlass::{Result, context::Context, controller::Action, operator::Operator};

use super::{ClusterCertificates, controller};
use crate::volumes::{phase, protect};

const FINALIZER: &str = "kubernetes.io/pv-protection";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    operator.controller(controller::<PersistentVolume>("persistentvolume-protection-controller", reconcile))
}

async fn reconcile(volume: Arc<PersistentVolume>, ctx: Context) -> Result<Action> {
    protect(volume, &ctx, FINALIZER, async |volume| Ok(phase(volume) == "Bound")).await
}
