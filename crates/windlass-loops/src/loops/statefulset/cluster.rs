//! Performs the planned changes of a stateful set.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::join_all};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::api::DeleteParams;
use windlass::{Result, context::Context, key::ObjectKey};

use super::{claims, identity, plan::Step};
use crate::errors::server_message;

/// Maximum number of concurrent steps.
const MAX_BATCH: usize = 500;

/// Performs steps one after the other, up to the first failure.
pub(super) async fn in_order(ctx: &Context, set: &StatefulSet, steps: Vec<Step>) -> Result<()> {
    for step in steps {
        perform(ctx, set, step).await?;
    }
    Ok(())
}

/// Performs steps in batches of one, two, four and so on, so that a common failure occurs only a few times.
pub(super) async fn at_once(ctx: &Context, set: &StatefulSet, steps: Vec<Step>) -> Result<()> {
    let mut steps = steps.into_iter().peekable();
    let mut size = 1;
    while steps.peek().is_some() {
        let batch: Vec<Step> = steps.by_ref().take(size).collect();
        let results = join_all(batch.into_iter().map(|step| perform(ctx, set, step).boxed())).await;
        results.into_iter().collect::<Result<()>>()?;
        size = (size * 2).min(MAX_BATCH);
    }
    Ok(())
}

async fn perform(ctx: &Context, set: &StatefulSet, step: Step) -> Result<()> {
    match step {
        Step::Create(pod) => create(ctx, set, *pod).await,
        Step::Claim(pod) => {
            let ordinal = identity::ordinal(&pod).unwrap_or_default();
            create_claims(ctx, set, &pod, ordinal).await?;
            own_claims(ctx, set, &pod).await
        }
        Step::Repair(pod) => repair(ctx, set, &pod).await,
        Step::Delete(pod) => {
            // Without a propagation policy, as in kube-controller-manager: the default of the resource applies.
            let answer = ctx.delete_with(&pod, &DeleteParams::default()).await;
            record_event(ctx, set, "Delete", &pod, answer.as_ref().err());
            Ok(answer?)
        }
    }
}

async fn create(ctx: &Context, set: &StatefulSet, pod: Pod) -> Result<()> {
    let ordinal = identity::ordinal(&pod).unwrap_or_default();
    create_claims(ctx, set, &pod, ordinal).await?;
    match ctx.create(pod.clone()).await {
        Ok(created) => {
            own_claims(ctx, set, &created).await?;
            record_event(ctx, set, "Create", &pod, None);
            Ok(())
        }
        Err(error) => {
            if !error.is_already_exists() && !error.is_namespace_terminating() {
                record_event(ctx, set, "Create", &pod, Some(&error));
            }
            Err(error.into())
        }
    }
}

/// Creates missing claims.
async fn create_claims(ctx: &Context, set: &StatefulSet, pod: &Pod, ordinal: i64) -> Result<()> {
    for claim in claims::of_pod(set, ordinal) {
        let key = ObjectKey::of(&claim);
        if ctx.get::<PersistentVolumeClaim>(&key)?.is_some() {
            continue;
        }
        let (pod_name, set_name) = (name(&pod.metadata.name), name(&set.metadata.name));
        match ctx.create(claim).await {
            Ok(_) => ctx.event(set).normal(
                "SuccessfulCreate",
                &format!("Create Claim {} Pod {pod_name} in StatefulSet {set_name} success", key.name()),
            ),
            Err(error) => {
                if !error.is_already_exists() {
                    let note = format!(
                        "Create Claim {} for Pod {pod_name} in StatefulSet {set_name} failed error: {}",
                        key.name(),
                        server_message(&error),
                    );
                    ctx.event(set).warning("FailedCreate", &note);
                }
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// Sets the owners of the claims according to the retention policy.
async fn own_claims(ctx: &Context, set: &StatefulSet, pod: &Pod) -> Result<()> {
    let Some(ordinal) = identity::ordinal(pod) else { return Ok(()) };
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    for template in identity::claim_templates(set) {
        let key = ObjectKey::namespaced(namespace, &identity::claim_name(set, template, ordinal));
        let Some(claim) = ctx.get::<PersistentVolumeClaim>(&key)? else { continue };
        if let Some(owners) = claims::owners_to_set(set, pod, &claim) {
            let mut claim = PersistentVolumeClaim::clone(&claim);
            claim.metadata.owner_references = (!owners.is_empty()).then_some(owners);
            ctx.update(claim).await?;
        }
    }
    Ok(())
}

async fn repair(ctx: &Context, set: &StatefulSet, pod: &Arc<Pod>) -> Result<()> {
    let Some(ordinal) = identity::ordinal(pod) else { return Ok(()) };
    let mut whole = Pod::clone(pod);
    whole.metadata.name = Some(identity::pod_name(set, ordinal));
    if !identity::is_identified(set, pod) {
        identity::identify(&mut whole, ordinal);
    }
    if !identity::is_attached(set, pod) {
        identity::attach(set, &mut whole, ordinal);
        create_claims(ctx, set, pod, ordinal).await?;
    }
    own_claims(ctx, set, pod).await?;
    let answer = ctx.update(whole).await;
    record_event(ctx, set, "Update", pod, answer.as_ref().err());
    answer?;
    Ok(())
}

/// Records an event about a step.
fn record_event(
    ctx: &Context,
    set: &StatefulSet,
    verb: &str,
    pod: &Pod,
    error: Option<&windlass::context::ContextError>,
) {
    let about = format!("{verb} Pod {} in StatefulSet {}", name(&pod.metadata.name), name(&set.metadata.name));
    match error {
        None => ctx.event(set).normal(&format!("Successful{verb}"), &format!("{about} successful")),
        Some(error) => {
            let note = format!("{about} failed error: {}", server_message(error));
            ctx.event(set).warning(&format!("Failed{verb}"), &note);
        }
    }
}

fn name(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or_default()
}
