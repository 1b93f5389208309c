//! Quota: writes are charged to the ResourceQuotas of their namespace before they are stored.
//!
//! A charge is a compare-and-swap of the quota's status, so two writes never spend the same remainder. Charges for a
//! write that fails are refunded; those of deleted objects are released by the control loop that counts usage.

use std::{collections::HashMap, future::Future, pin::Pin, sync::Arc};

use futures_util::FutureExt as _;
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use windlass_builtins::quota::{self, Devices, Evaluator, Usage, Write};

use super::{ManagedFieldsMode, OnConflict, update_object};
use crate::{
    admission,
    call::Call,
    endpoint::Endpoint,
    options::WriteOptions,
    request_info::ResourceRequest,
    server::Inner,
    status::{ApiError, Result},
    user::User,
};

/// The field manager of the server's own writes.
pub(crate) const MANAGER: &str = "kube-apiserver";

/// A lock per namespace, held while its quotas are charged, so that writes of one server do not conflict with each
/// other.
#[derive(Debug, Default)]
pub(crate) struct QuotaLocks(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl QuotaLocks {
    /// Waits for the lock of a namespace.
    async fn acquire(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            // Locks in use have a second reference.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(namespace.to_owned()).or_default().clone()
        };
        lock.lock_owned().await
    }
}

/// The charges of a write, by the name of the quota.
#[derive(Debug, Default)]
#[must_use = "the charges of a failed write must be refunded"]
pub(super) struct Charges(Vec<(String, Usage)>);

/// A write that quotas may limit.
#[derive(Clone, Copy)]
pub(super) struct Charge<'a> {
    pub(super) server: &'a Arc<Inner>,
    pub(super) endpoint: &'a Endpoint,
    pub(super) namespace: &'a str,
    pub(super) write: Write<'a>,
}

/// Charges a write to the quotas that apply to it, or rejects it. A dry run only checks the quotas.
pub(super) async fn charge(charge: Charge<'_>, dry_run: bool) -> Result<Charges> {
    let resource = &*charge.endpoint.resource;
    let Some(locks) = &charge.server.quota_locks else { return Ok(Charges::default()) };
    if !resource.namespaced || charge.namespace.is_empty() {
        return Ok(Charges::default());
    }
    let evaluator = Evaluator::of(&resource.group, &resource.plural);
    match evaluator.filter(|evaluator| evaluator.handles(&charge.write)) {
        Some(evaluator) => charge_quotas(charge, locks, evaluator, dry_run).boxed().await,
        None => Ok(Charges::default()),
    }
}

async fn charge_quotas(charge: Charge<'_>, locks: &QuotaLocks, evaluator: Evaluator, dry_run: bool) -> Result<Charges> {
    let Charge { server, namespace, write, .. } = charge;
    let quotas = quotas(server)?;
    let prefix = format!("{namespace}/");
    if quotas.cache.snapshot().range(&prefix, None).next().is_none() {
        return Ok(Charges::default());
    }
    let _lock = locks.acquire(namespace).await;
    server.storage.fresh().await?;
    let evaluator = match evaluator {
        Evaluator::ResourceClaims(_) => Evaluator::ResourceClaims(devices(charge)),
        evaluator => evaluator,
    };
    let costs = costs(charge, &quotas, &evaluator)?;
    let mut charges = Charges::default();
    if dry_run {
        return Ok(charges);
    }
    for (name, cost) in costs {
        let paid = write_quota(server, &quotas, namespace, &name, |quota| {
            let charged = quota::charged(quota, &cost, &write).map_err(|why| over_quota(charge, &why))?;
            Ok(charged.unwrap_or_else(|| quota.clone()))
        });
        match paid.await {
            Ok(()) => charges.0.push((name, cost)),
            // The quota has been deleted and no longer limits anything.
            Err(error) if error.reason == "NotFound" => {}
            Err(error) => {
                refund(server, namespace, charges).await;
                return Err(error);
            }
        }
    }
    Ok(charges)
}

/// Returns the cost of a write for each quota that applies to it.
///
/// # Errors
/// Returns an error if a quota would be exceeded.
fn costs(charge: Charge<'_>, quotas: &Endpoint, evaluator: &Evaluator) -> Result<Vec<(String, Usage)>> {
    let Charge { server, namespace, write, .. } = charge;
    let reject = |why: String| over_quota(charge, &why);
    let prefix = format!("{namespace}/");
    let snapshot = quotas.cache.snapshot();
    let mut concerned = Vec::new();
    for (_, cached) in snapshot.range(&prefix, None) {
        let quota = cached.object.to_value();
        if quota::applies_to(&quota, evaluator, &write).map_err(reject)? {
            concerned.push((cached.object.header.name.to_string(), quota));
        }
    }
    let mut costs = Vec::new();
    for (name, quota) in concerned {
        let cost = quota::cost(&quota, evaluator, &write, server.now()).map_err(reject)?;
        if quota::charged(&quota, &cost, &write).map_err(reject)?.is_some() {
            costs.push((name, cost));
        }
    }
    Ok(costs)
}

/// Returns what the usage of a ResourceClaim depends on.
fn devices(charge: Charge<'_>) -> Devices {
    let Charge { server, namespace, write, .. } = charge;
    let classes = server.storage.cache("/resource.k8s.io/deviceclasses/").snapshot();
    let classes: Vec<Value> = classes.objects().map(|class| class.to_value()).collect();
    let mut devices = Devices::of_classes(classes.iter());
    if let Some((name, _)) = quota::pod_of(write.object)
        && let Some(pod) = server.storage.cache("/core/pods/").get(&format!("{namespace}/{name}"))
    {
        let claims = server.storage.cache("/resource.k8s.io/resourceclaims/").snapshot();
        let claims: Vec<Value> =
            claims.range(&format!("{namespace}/"), None).map(|(_, cached)| cached.object.to_value()).collect();
        devices.charge(write.object, &pod.to_value(), claims.iter(), server.now());
    }
    devices
}

/// Refunds the charges of a write that failed.
pub(super) async fn refund(server: &Arc<Inner>, namespace: &str, charges: Charges) {
    let Ok(quotas) = quotas(server) else { return };
    for (name, cost) in charges.0 {
        let refunded = write_quota(server, &quotas, namespace, &name, |quota| Ok(quota::reverted(quota, &cost)));
        if let Err(error) = refunded.await {
            // The control loop corrects it when it counts again.
            tracing::debug!(%error, namespace, quota = name, "failed to refund a quota charge");
        }
    }
}

fn quotas(server: &Inner) -> Result<Arc<Endpoint>> {
    let registry = server.registry.load_full();
    registry.endpoint("", "v1", "resourcequotas").cloned().ok_or_else(ApiError::no_such_resource)
}

/// Updates the status of a quota. Boxed, because as far as the types show, every write may charge quotas.
fn write_quota<'a>(
    server: &'a Arc<Inner>,
    quotas: &'a Arc<Endpoint>,
    namespace: &'a str,
    name: &'a str,
    change: impl FnMut(&Value) -> Result<Value> + Send + 'a,
) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
    Box::pin(async move {
        let target = ResourceRequest {
            version: "v1",
            namespace,
            resource: "resourcequotas",
            name,
            subresource: "status",
            ..ResourceRequest::default()
        };
        let (user, headers) = (User::apiserver(), HeaderMap::new());
        let call = Call::internal(server, quotas, target, &user, &headers);
        let options = WriteOptions { field_manager: MANAGER.to_owned(), ..WriteOptions::internal() };
        update_object(&call, &options, OnConflict::Retry, ManagedFieldsMode::Track, change).await.map(drop)
    })
}

fn over_quota(charge: Charge<'_>, why: &str) -> ApiError {
    admission::forbidden(&charge.endpoint.resource, "", charge.write.object, why)
}
