//! Creating and deleting the pods of a job, and removing their finalizers.

use std::{future::Future, sync::Arc};

use futures_util::{FutureExt, StreamExt as _, future::join_all, stream};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::api::{DeleteParams, Patch};
use serde_json::json;
use windlass::{
    Error, Result,
    context::{Context, ContextError},
    objects::owner,
};

use super::{
    template,
    view::{FINALIZER, View, has_finalizer},
};
use crate::{errors::server_message, pods::is_ready};

/// Number of concurrent requests.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// The result of deleting pods.
#[derive(Default)]
pub(super) struct Removed {
    /// Number of pods that are deleted or terminating.
    pub(super) count: i32,
    /// Number of ready pods among them.
    pub(super) ready: i32,
    /// The first error of the others.
    pub(super) error: Option<Error>,
}

/// Deletes pods that still have to be counted.
pub(super) async fn delete(ctx: &Context, job: &Job, pods: &[Arc<Pod>]) -> Removed {
    remove(ctx, job, pods, false).await
}

/// Deletes pods that are not counted.
pub(super) async fn release_and_delete(ctx: &Context, job: &Job, pods: &[Arc<Pod>]) -> Removed {
    remove(ctx, job, pods, true).await
}

async fn remove(ctx: &Context, job: &Job, pods: &[Arc<Pod>], release: bool) -> Removed {
    let deletions = pods.iter().map(|pod| {
        let (ctx, pod, job) = (ctx.clone(), Arc::clone(pod), job.clone());
        async move {
            let ready = is_ready(&pod);
            if release {
                release_one(&ctx, &pod).await?;
            }
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            match ctx.delete_with(&pod, &DeleteParams::default()).await {
                Ok(()) => ctx.event(&job).normal("SuccessfulDelete", &format!("Deleted pod: {name}")),
                Err(error) => {
                    ctx.event(&job).warning("FailedDelete", &format!("Error deleting: {}", server_message(&error)));
                    return Err(error);
                }
            }
            Ok(ready)
        }
    });
    let mut removed = Removed::default();
    for answer in all(deletions).await {
        match answer {
            Ok(ready) => {
                removed.count += 1;
                removed.ready += i32::from(ready);
            }
            Err(error) => removed.error = Some(error.into()),
        }
    }
    removed
}

/// Removes the finalizer from pods. Returns the UIDs of those without it, and the first error of the others.
pub(super) async fn release(ctx: &Context, pods: &[Arc<Pod>]) -> (Vec<String>, Option<Error>) {
    let releases = pods.iter().map(|pod| {
        let (ctx, pod) = (ctx.clone(), Arc::clone(pod));
        async move {
            release_one(&ctx, &pod).await?;
            Ok::<_, ContextError>(pod.metadata.uid.clone().unwrap_or_default())
        }
    });
    let (mut released, mut failed) = (Vec::new(), None);
    for answer in all(releases).await {
        match answer {
            Ok(uid) => released.push(uid),
            Err(error) => failed = Some(error.into()),
        }
    }
    (released, failed)
}

/// Removes the finalizer from a pod, if it exists and has it.
pub(super) async fn release_one(ctx: &Context, pod: &Arc<Pod>) -> Result<(), ContextError> {
    if !has_finalizer(pod) {
        return Ok(());
    }
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    match ctx.patch(pod, &Patch::Strategic(patch)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Creates pods in batches of one, two, four and so on, so that a rejected request is not repeated too often. Returns
/// the number of created pods, and the first error.
pub(super) async fn make(ctx: &Context, view: &View, indexes: &[Option<i64>]) -> Result<(i32, Option<Error>)> {
    let owner = owner::controller_reference(&view.job)?;
    let (mut made, mut failed, mut left, mut batch) = (0, None, indexes, 1);
    while !left.is_empty() && failed.is_none() {
        let (now, later) = left.split_at(batch.min(left.len()));
        let creations = now.iter().map(|index| {
            let (ctx, pod) = (ctx.clone(), template::pod(view, *index, owner.clone()));
            async move { ctx.create(pod).await }.boxed()
        });
        for answer in join_all(creations).await {
            match answer {
                Ok(pod) => {
                    made += 1;
                    let name = pod.metadata.name.as_deref().unwrap_or_default();
                    ctx.event(&view.job).normal("SuccessfulCreate", &format!("Created pod: {name}"));
                }
                // All others would be rejected as well, which is not worth reporting.
                Err(error) if error.is_namespace_terminating() => return Ok((made, failed)),
                Err(error) => {
                    ctx.event(&view.job)
                        .warning("FailedCreate", &format!("Error creating: {}", server_message(&error)));
                    failed = Some(error.into());
                }
            }
        }
        (left, batch) = (later, batch * 2);
    }
    Ok((made, failed))
}

async fn all<F: Future + Send>(requests: impl Iterator<Item = F>) -> Vec<F::Output> {
    stream::iter(requests.map(FutureExt::boxed).collect::<Vec<_>>())
        .buffer_unordered(MAX_CONCURRENT_REQUESTS)
        .collect()
        .await
}
