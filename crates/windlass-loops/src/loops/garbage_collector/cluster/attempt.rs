//! Processes one object: fetches its state, decides, and acts.

use futures_util::future::try_join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use parking_lot::Mutex;

use super::{
    super::{
        decide::{Policy, Standing, Verdict, decide},
        graph::{Graph, Item, Orphaned},
        node::{FOREGROUND, Identity, ORPHAN, Phase, Uid},
    },
    Cluster, Deleted, Failed, is,
};

/// Number of dependents that are changed at the same time.
const MAX_CONCURRENT_DEPENDENTS: usize = 16;

/// Outcome of an attempt.
#[derive(Debug)]
pub(in super::super) enum Outcome {
    Done,
    /// No watch has seen the object yet, or it changes too fast.
    Again,
    /// A kind is not served: retrying is useless before that changes.
    NotServed,
    Failed(kube::Error),
}

impl From<Failed> for Outcome {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotServed => Self::NotServed,
            // The reference is wrong, and retrying does not change that.
            Failed::NoNamespace => Self::Done,
            Failed::Api(error) => Self::Failed(error),
        }
    }
}

/// Deletes an object if all of its owners are gone.
pub(in super::super) async fn attempt<C: Cluster>(graph: &Mutex<Graph>, cluster: &C, uid: &Uid) -> Outcome {
    let Some(item) = graph.lock().item(uid) else { return Outcome::Done };
    match settle(graph, cluster, &item).await {
        Ok(true) if !item.is_virtual => Outcome::Done,
        Ok(settled) => {
            let unseen = graph.lock().item(uid).is_some_and(|item| item.is_virtual);
            if settled && !unseen { Outcome::Done } else { Outcome::Again }
        }
        Err(failed) => failed.into(),
    }
}

/// Removes an owner from its dependents' references, then lets it be deleted.
pub(in super::super) async fn orphan<C: Cluster>(graph: &Mutex<Graph>, cluster: &C, uid: &Uid) -> Outcome {
    let (owner, dependents) = {
        let graph = graph.lock();
        let Some(item) = graph.item(uid) else { return Outcome::Done };
        (item.identity, graph.dependents(uid))
    };
    let owners = [uid.clone()];
    for some in dependents.chunks(MAX_CONCURRENT_DEPENDENTS) {
        let mut unlinking = Vec::with_capacity(some.len());
        for dependent in some {
            unlinking.push(cluster.unlink(dependent, &owners));
        }
        if let Err(failed) = try_join_all(unlinking).await {
            return failed.into();
        }
    }
    // A dependent that a watch reports only later must not be treated as one whose owner is gone. This comes before the
    // request, because the watch may be faster than its response.
    graph.lock().remember_orphaned(uid.clone(), Orphaned { until: u64::MAX, since: None });
    match cluster.remove_finalizer(&owner, ORPHAN).await {
        Ok(done) => {
            if let Some((until, meta)) = done.and_then(|meta| Some((revision_of(&meta)?, meta))) {
                let since = meta.deletion_timestamp.map(|time| time.0);
                graph.lock().remember_orphaned(uid.clone(), Orphaned { until, since });
            }
            Outcome::Done
        }
        Err(failed) => failed.into(),
    }
}

/// Decides about an object and acts. Returns false if no decision was possible.
async fn settle<C: Cluster>(graph: &Mutex<Graph>, cluster: &C, item: &Item) -> Result<bool, Failed> {
    // It is deleted when its finalizers are removed; nothing can be done here.
    if item.phase.deleting && !item.phase.waits() {
        return Ok(true);
    }
    let object = &item.identity;
    let Some(latest) = cluster.get(object).await?.filter(|meta| is(meta, object)) else {
        graph.lock().verified_absent(object);
        return Ok(true);
    };
    if item.phase.waits() {
        if !item.is_blocked {
            cluster.remove_finalizer(object, FOREGROUND).await?;
        }
        return Ok(true);
    }
    let references = latest.owner_references.as_deref().unwrap_or_default();
    let mut owners = Vec::with_capacity(references.len());
    for reference in references {
        let standing = standing(graph, cluster, object, reference, &latest).await?;
        owners.push((Uid::new(&reference.uid), standing));
    }
    match decide(item, &owners, Phase::of(&latest)) {
        Verdict::Keep => {}
        Verdict::Unlink(owners) => {
            cluster.unlink(object, &owners).await?;
        }
        Verdict::Delete { policy, unblock } => {
            let mut revision = latest.resource_version.as_deref();
            if unblock {
                cluster.unblock(object, references).await?;
                revision = None;
            }
            return delete(graph, cluster, object, &latest, revision, policy).await;
        }
    }
    Ok(true)
}

/// The state of an owner of an object.
async fn standing<C: Cluster>(
    graph: &Mutex<Graph>,
    cluster: &C,
    object: &Identity,
    reference: &OwnerReference,
    latest: &ObjectMeta,
) -> Result<Standing, Failed> {
    let (owner, in_cluster) = {
        let mut graph = graph.lock();
        let nowhere = graph.names.namespace(None);
        let owner = graph.names.owner(reference).identity(&object.namespace);
        (owner.clone(), Identity { namespace: nowhere, ..owner })
    };
    let gone = |graph: &Graph| {
        if graph.was_orphaned(&owner.uid, latest) { Standing::Orphaned } else { Standing::Gone }
    };
    {
        let graph = graph.lock();
        if graph.is_absent(&in_cluster) || graph.is_absent(&owner) {
            return Ok(gone(&graph));
        }
    }
    let namespaced = cluster.is_namespaced(&owner.kind).ok_or(Failed::NotServed)?;
    if namespaced && !object.is_namespaced() {
        return Err(Failed::NoNamespace);
    }
    match cluster.get(&owner).await?.filter(|meta| is(meta, &owner)) {
        Some(meta) if Phase::of(&meta).waits() => Ok(Standing::Waiting),
        Some(_) => Ok(Standing::Solid),
        None => {
            let mut graph = graph.lock();
            graph.remember_absent(if namespaced { owner.clone() } else { in_cluster });
            Ok(gone(&graph))
        }
    }
}

/// Deletes an object if its owners have not changed in the meantime; other changes do not matter. Returns false if they
/// have.
async fn delete<C: Cluster>(
    graph: &Mutex<Graph>,
    cluster: &C,
    object: &Identity,
    latest: &ObjectMeta,
    revision: Option<&str>,
    policy: Policy,
) -> Result<bool, Failed> {
    let mut deleted = cluster.delete(object, revision, policy).await?;
    if deleted == Deleted::Changed {
        deleted = match cluster.get(object).await?.filter(|meta| is(meta, object)) {
            None => Deleted::Missing,
            Some(now) if now.owner_references == latest.owner_references => {
                cluster.delete(object, None, policy).await?
            }
            Some(_) => Deleted::Changed,
        };
    }
    if deleted == Deleted::Missing {
        graph.lock().verified_absent(object);
    }
    Ok(deleted != Deleted::Changed)
}

fn revision_of(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref()?.parse().ok()
}
