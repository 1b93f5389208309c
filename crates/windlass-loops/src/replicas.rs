//! Replica sets and replication controllers, which differ only in their types: keeping the desired number of pods.

mod parent;
mod status;

use std::{cmp::Ordering, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use windlass::{
    Result,
    context::{Context, ContextError},
    controller::Action,
    objects::owner::{controller_of, controller_reference},
};

pub(crate) use self::parent::Parent;
use self::status::{Failure, status_of};
use crate::{
    errors::server_message,
    pods::{self, Children, batch},
};

/// Number of objects that are reconciled at the same time. Each mostly waits for the server, and concurrent writes are
/// committed together.
pub(crate) const CONCURRENCY: usize = 16;

/// Creates or deletes pods until their number matches the spec, and updates the status.
pub(crate) async fn reconcile<K: Parent>(parent: Arc<K>, ctx: Context) -> Result<Action> {
    let Some(selector) = parent.selector() else { return Ok(Action::done()) };
    let children = Children::<Pod>::selected(&selector)?;
    let mut active: Vec<Arc<Pod>> = pods::candidates(&ctx, &*parent)?;
    active.retain(|pod| pods::is_active(pod));
    let active = children.claim(&ctx, &*parent, active).await?;
    let there = active.len();
    let managed = match parent.meta().deletion_timestamp {
        Some(_) => Ok(()),
        None => manage(&ctx, &*parent, active).await,
    };
    // The cache already contains the created and deleted pods.
    let mut own: Vec<Arc<Pod>> = ctx.owned(&parent)?;
    own.retain(|pod| children.matches(pod));
    let failure = managed.as_ref().err().map(|error| Failure {
        reason: if there < wanted(&*parent) { "FailedCreate" } else { "FailedDelete" },
        message: server_message(error),
    });
    let now = windlass_clock::now();
    let (before, after) = (parent.status(), status_of(&*parent, &own, failure.as_ref(), now));
    let waiting = parent.min_ready_seconds() > 0 && after.ready != after.available;
    if before != after {
        ctx.update_status(parent.with_status(after)).await?;
    }
    managed?;
    if waiting {
        let seconds = parent.min_ready_seconds();
        let next = pods::next_available(own.iter().map(|pod| &**pod), seconds, now);
        let at_the_latest = || std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        return Ok(Action::requeue_after(next.unwrap_or_else(at_the_latest)));
    }
    Ok(Action::done())
}

fn wanted<K: Parent>(parent: &K) -> usize {
    usize::try_from(parent.desired()).unwrap_or_default()
}

/// Creates missing pods or deletes surplus ones.
async fn manage<K: Parent>(ctx: &Context, parent: &K, mut active: Vec<Arc<Pod>>) -> Result<(), ContextError> {
    let wanted = wanted(parent);
    match active.len().cmp(&wanted) {
        Ordering::Equal => Ok(()),
        Ordering::Less => {
            let Some(pod) = new_pod(parent) else { return Ok(()) };
            let missing = (wanted - active.len()).min(batch::BURST);
            batch::create(ctx, parent, vec![pod; missing]).await
        }
        Ordering::Greater => {
            let surplus = (active.len() - wanted).min(batch::BURST);
            if surplus < active.len() {
                pods::rank(&mut active, &related(ctx, parent)?, windlass_clock::now());
            }
            batch::delete(ctx, parent, &active[..surplus]).await
        }
    }
}

fn new_pod<K: Parent>(parent: &K) -> Option<Pod> {
    let owner = controller_reference(parent).ok()?;
    let namespace = parent.meta().namespace.as_deref().unwrap_or_default();
    let prefix = pods::name_prefix(parent.meta().name.as_deref().unwrap_or_default());
    Some(pods::from_template(parent.template()?, namespace, &prefix, owner))
}

/// The pods that do the same work: those of all parents with the same controller.
fn related<K: Parent>(ctx: &Context, parent: &K) -> Result<Vec<Arc<Pod>>, ContextError> {
    let Some(owner) = controller_of(parent.meta()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for sibling in ctx.kind::<K>().owned(&owner.uid)? {
        found.extend(ctx.owned::<Pod, K>(&sibling)?);
    }
    Ok(found)
}
