//! Ensures a default service account in every namespace.
//!
//! Pods without a service account run as `default`, so it exists in every active namespace and is recreated when
//! deleted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::core::ObjectMeta;
use windlass::{
    Result,
    context::Context,
    controller::{Action, Watch},
    key::ObjectKey,
    operator::Operator,
    scope::Scope,
};

use super::{ClusterCertificates, is_active_namespace};

const ACCOUNT: &str = "default";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let accounts = Watch::<ServiceAccount>::new().scope(Scope::all().fields(format!("metadata.name={ACCOUNT}")));
    let namespace_of = |account: &ServiceAccount, _: &Context| {
        account.metadata.namespace.iter().map(|namespace| ObjectKey::cluster(namespace)).collect()
    };
    operator.controller(
        super::controller::<Namespace>("serviceaccount-controller", reconcile)
            .source(accounts.map(namespace_of))
            .concurrency(4),
    )
}

async fn reconcile(namespace: Arc<Namespace>, ctx: Context) -> Result<Action> {
    if !is_active_namespace(&namespace) {
        return Ok(Action::done());
    }
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    if ctx.get::<ServiceAccount>(&ObjectKey::namespaced(name, ACCOUNT))?.is_some() {
        return Ok(Action::done());
    }
    let metadata = ObjectMeta { name: Some(ACCOUNT.into()), namespace: Some(name.to_owned()), ..ObjectMeta::default() };
    match ctx.create(ServiceAccount { metadata, ..ServiceAccount::default() }).await {
        Err(error) if !error.is_already_exists() && !error.is_namespace_terminating() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}
