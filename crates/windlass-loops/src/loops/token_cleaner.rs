//! Deletes bootstrap tokens that have expired.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Preconditions};
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller, Watch},
    operator::Operator,
};

use super::{ClusterCertificates, FIELD_MANAGER};
use crate::bootstrap_tokens::{self, Expiration, expiration};

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let watch = Watch::<Secret>::new().scope(bootstrap_tokens::scope());
    operator.controller(Controller::of("token-cleaner-controller", watch, reconcile).field_manager(FIELD_MANAGER))
}

async fn reconcile(secret: Arc<Secret>, ctx: Context) -> Result<Action> {
    match expiration(&secret, windlass_clock::now()) {
        Expiration::Never => Ok(Action::done()),
        Expiration::In(remaining) => Ok(Action::requeue_after(remaining.max(Duration::from_millis(1)))),
        Expiration::Expired => {
            let preconditions = Preconditions { uid: secret.metadata.uid.clone(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match ctx.delete_with(&*secret, &params).await {
                Err(error) if !error.is_conflict() => Err(error.into()),
                _ => Ok(Action::done()),
            }
        }
    }
}
