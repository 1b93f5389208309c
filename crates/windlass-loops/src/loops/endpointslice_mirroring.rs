//! Mirrors user-written Endpoints of services without a selector to endpoint slices, because most clients read only
//! these.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use windlass::{Result, context::Context, controller::Action, key::ObjectKey, operator::Operator};

use self::plan::{Changes, plan};
use super::{
    ClusterCertificates,
    endpoints::LEADER,
    endpointslice::{MANAGED_BY_LABEL, SERVICE_LABEL, slices_of},
};

const NAME: &str = "endpointslice-mirroring-controller";
const MANAGED_BY: &str = "endpointslicemirroring-controller.k8s.io";
/// Label of endpoints that are not mirrored.
const SKIP_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let controller = super::controller(NAME, reconcile)
        .watches::<Service>(|service, _| vec![ObjectKey::of(service)])
        .watches::<EndpointSlice>(|slice, _| {
            let labels = slice.metadata.labels.as_ref();
            let label = |name: &str| labels.and_then(|labels| labels.get(name)).map_or("", String::as_str);
            let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
            let is_own = label(MANAGED_BY_LABEL) == MANAGED_BY && !label(SERVICE_LABEL).is_empty();
            is_own.then(|| ObjectKey::namespaced(namespace, label(SERVICE_LABEL))).into_iter().collect()
        })
        .on_deleted(remove);
    operator.controller(controller)
}

/// Deletes the slices of deleted endpoints.
async fn remove(key: ObjectKey, ctx: Context) -> Result<()> {
    for slice in slices_of(&ctx, &key, MANAGED_BY)? {
        ctx.delete(&slice).await?;
    }
    Ok(())
}

async fn reconcile(endpoints: Arc<Endpoints>, ctx: Context) -> Result<Action> {
    let key = ObjectKey::of(&*endpoints);
    let service = ctx.get::<Service>(&key)?;
    if !is_mirrored(&endpoints) || service.is_none_or(|service| has_selector(&service)) {
        remove(key, ctx).await?;
        return Ok(Action::done());
    }
    let Changes { create, update, delete } = plan(&endpoints, slices_of(&ctx, &key, MANAGED_BY)?)?;
    for slice in create.into_iter().filter(|_| endpoints.metadata.deletion_timestamp.is_none()) {
        match ctx.create(slice).await {
            Err(error) if error.is_namespace_terminating() => return Ok(Action::done()),
            answer => drop(answer?),
        }
    }
    for slice in update {
        ctx.update(slice).await?;
    }
    for slice in delete {
        ctx.delete(&slice).await?;
    }
    Ok(Action::done())
}

fn is_mirrored(endpoints: &Endpoints) -> bool {
    let skips = endpoints.metadata.labels.as_ref().and_then(|labels| labels.get(SKIP_LABEL));
    let is_lock = endpoints.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(LEADER));
    skips.is_none_or(|skips| skips != "true") && !is_lock
}

fn has_selector(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| !selector.is_empty())
}
