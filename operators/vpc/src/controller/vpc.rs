//! Maintains the status of each Vpc.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    core::{Expression, Selector},
};
use windlass::prelude::*;

use crate::{
    api::vpc::{Vpc, VpcStatus},
    subnets::split,
};

/// Label with the name of the Vpc that a pod is in.
pub const LABEL: &str = "network.example.com/vpc";
/// Keeps a Vpc while there are pods in it.
pub const FINALIZER: &str = "network.example.com/in-use";

/// Watches Vpcs and the pods in them.
pub fn controller() -> Controller<Vpc> {
    Controller::new("vpc", reconcile)
        .finalizer(FINALIZER, release)
        .source(Watch::<Pod>::new().scope(Scope::all().labels(LABEL)).map(|pod, _| vpc_of(pod)))
        .concurrency(4)
}

async fn reconcile(vpc: Arc<Vpc>, ctx: Context) -> Result<Action> {
    let mut status = VpcStatus { pod_names: pods_of(&vpc, &ctx)?, ..VpcStatus::default() };
    match split(&vpc.spec.cidrblock, vpc.spec.subnetnum) {
        Ok(subnets) => {
            status.subnets = subnets.iter().map(ToString::to_string).collect();
            status.subnetnum = vpc.spec.subnetnum;
            status.set_condition(ready(true).reason("Carved").message("the block is split into subnets"));
        }
        Err(rejected) => {
            let message = rejected.to_string();
            ctx.event(&vpc).warning("InvalidSplit", &message);
            status.set_condition(ready(false).reason("InvalidSplit").message(message));
        }
    }
    ctx.set_status(&vpc, status).await?;
    Ok(Action::done())
}

/// Lets a Vpc be deleted when it has no pods. Pods are watched, so the deletion of the last one triggers another call.
async fn release(vpc: Arc<Vpc>, ctx: Context) -> Result<Action> {
    let pods = pods_of(&vpc, &ctx)?;
    if pods.is_empty() {
        return Ok(Action::done());
    }
    let message = format!("{} pods still use the Vpc", pods.len());
    let mut status = VpcStatus { pod_names: pods, ..vpc.status.clone().unwrap_or_default() };
    status.set_condition(ready(false).reason("InUse").message(message));
    ctx.set_status(&vpc, status).await?;
    Ok(Action::requeue_after(Duration::from_secs(60)))
}

/// Returns the sorted names of the unfinished pods with the Vpc's label.
fn pods_of(vpc: &Vpc, ctx: &Context) -> Result<Vec<String>> {
    let labelled: Selector = Expression::Equal(LABEL.to_owned(), vpc.name_any()).into();
    let pods: Vec<Arc<Pod>> = ctx.select_in(&vpc.namespace().unwrap_or_default(), &labelled)?;
    let mut names: Vec<String> = pods.iter().filter(|pod| !has_ended(pod)).map(|pod| pod.name_any()).collect();
    names.sort_unstable();
    Ok(names)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn vpc_of(pod: &Pod) -> Vec<ObjectKey> {
    let name = pod.labels().get(LABEL).filter(|name| !name.is_empty());
    name.map(|name| ObjectKey::namespaced(&pod.namespace().unwrap_or_default(), name)).into_iter().collect()
}
