//! Pods that are no longer counted by a job: their finalizer would keep them forever.

use std::sync::Arc;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller, filter},
    key::ObjectKey,
    objects::owner::controller_of,
};

use super::{conditions, pods::release_one, template::is_managed_elsewhere, view::has_finalizer};

/// Removes the finalizer from pods whose job is deleted or has finished, or which no longer belong to it.
pub(super) fn controller() -> Controller<Pod> {
    crate::loops::controller::<Pod>("job-controller-orphan-pods", reconcile)
        .filter(filter::object(has_finalizer))
        .watches::<Job>(left_behind)
        .concurrency(5)
}

/// The pods of a deleted or finished job.
fn left_behind(job: &Job, ctx: &Context) -> Vec<ObjectKey> {
    let present = ctx.get::<Job>(&ObjectKey::of(job)).ok().flatten();
    let counts = |present: Arc<Job>| present.metadata.uid == job.metadata.uid && conditions::end(&present).is_none();
    if present.is_some_and(counts) {
        return Vec::new();
    }
    let pods: Vec<Arc<Pod>> = ctx.owned::<Pod, Job>(job).unwrap_or_default();
    pods.iter().filter(|pod| has_finalizer(pod)).map(|pod| ObjectKey::of(&**pod)).collect()
}

async fn reconcile(pod: Arc<Pod>, ctx: Context) -> Result<Action> {
    if has_finalizer(&pod) && is_orphan(&pod, &ctx).await? {
        release_one(&ctx, &pod).await?;
    }
    Ok(Action::done())
}

async fn is_orphan(pod: &Pod, ctx: &Context) -> Result<bool> {
    let Some(owner) = controller_of(&pod.metadata) else { return Ok(true) };
    if owner.kind != "Job" || owner.api_version != "batch/v1" {
        // Another controller uses the finalizer: leave it alone.
        return Ok(false);
    }
    let key = ObjectKey::namespaced(pod.metadata.namespace.as_deref().unwrap_or_default(), &owner.name);
    let same = |job: &Job| job.metadata.uid.as_deref() == Some(&owner.uid);
    let job = match ctx.get::<Job>(&key)?.filter(|job| same(job)) {
        Some(job) => Some(job),
        // The cache may not have it yet.
        None => ctx.live().get::<Job>(&key).await?.filter(same).map(Arc::new),
    };
    Ok(job.is_none_or(|job| !is_managed_elsewhere(&job) && conditions::end(&job).is_some()))
}
