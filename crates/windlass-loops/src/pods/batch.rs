//! Creating and deleting many pods for one parent.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use windlass::{
    context::{Context, ContextError},
    object::Object,
};

use crate::errors::server_message;

/// Maximum number of pods created or deleted per reconciliation.
pub(crate) const BURST: usize = 500;

/// Creates pods, with an event about the parent for each. Starts with one and doubles the batch each time until one
/// fails, because what fails for one is likely to fail for all. Returns the first error.
///
/// Errors in a terminating namespace are ignored.
pub(crate) async fn create<P>(ctx: &Context, parent: &P, pods: Vec<Pod>) -> Result<(), ContextError>
where
    P: Object<DynamicType = ()>,
{
    let mut pods = pods.into_iter().peekable();
    let mut size = 1;
    while pods.peek().is_some() {
        let batch = pods.by_ref().take(size).map(|pod| ctx.create(pod).boxed());
        let mut failed = None;
        for made in join_all(batch).await {
            match made {
                Ok(pod) => {
                    let name = pod.metadata.name.as_deref().unwrap_or_default();
                    ctx.event(parent).normal("SuccessfulCreate", &format!("Created pod: {name}"));
                }
                Err(error) if error.is_namespace_terminating() => return Ok(()),
                Err(error) => {
                    ctx.event(parent).warning("FailedCreate", &format!("Error creating: {}", server_message(&error)));
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        size *= 2;
    }
    Ok(())
}

/// Deletes pods concurrently, with an event about the parent for each. Returns the first error.
pub(crate) async fn delete<P>(ctx: &Context, parent: &P, pods: &[Arc<Pod>]) -> Result<(), ContextError>
where
    P: Object<DynamicType = ()>,
{
    let params = DeleteParams::default();
    let deleted = join_all(pods.iter().map(|pod| ctx.delete_with(pod, &params).boxed())).await;
    let mut failed = Ok(());
    for (pod, deleted) in pods.iter().zip(deleted) {
        match deleted {
            Ok(()) => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                ctx.event(parent).normal("SuccessfulDelete", &format!("Deleted pod: {name}"));
            }
            // Another pod has the name now: this one is already deleted.
            Err(error) if error.is_conflict() => {}
            Err(error) => {
                ctx.event(parent).warning("FailedDelete", &format!("Error deleting: {}", server_message(&error)));
                failed = failed.and(Err(error));
            }
        }
    }
    failed
}
