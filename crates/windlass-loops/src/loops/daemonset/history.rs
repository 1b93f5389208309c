//! Controller revisions of a daemon set.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::Pod,
};
use kube::{ResourceExt as _, api::Patch};
use serde_json::json;
use windlass::{Error, Result, context::Context};
use windlass_schema::sorting::Gather as _;

use super::fit::HASH_LABEL;
use crate::revisions::{self, Draft};

/// The revision of the current template, and the others.
pub(super) struct History {
    pub(super) current: Arc<ControllerRevision>,
    pub(super) old: Vec<Arc<ControllerRevision>>,
}

/// The hash in the labels of a revision's pods.
pub(super) fn hash(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL)).map_or("", String::as_str)
}

/// Finds or creates the revision of the current template, and makes it the latest.
pub(super) async fn construct(
    ctx: &Context,
    set: &DaemonSet,
    known: Vec<Arc<ControllerRevision>>,
    pods: &[Arc<Pod>],
    collisions: &mut i32,
) -> Result<History> {
    let template =
        set.spec.as_ref().map(|spec| &spec.template).ok_or_else(|| Error::terminal("the set has no template"))?;
    let data = revisions::data_of(template);
    let mut labelled = Vec::with_capacity(known.len());
    for revision in known {
        labelled.push(if hash(&revision).is_empty() { label(ctx, &revision).await? } else { revision });
    }
    let (mut current, old): (Vec<_>, Vec<_>) =
        labelled.into_iter().partition(|revision| revisions::holds(revision, &data));
    let number = old.iter().map(|revision| revision.revision).max().unwrap_or(0) + 1;
    revisions::sort(&mut current);
    let current = match current.pop() {
        Some(newest) => {
            merge(ctx, &newest, current, pods).await?;
            if newest.revision < number { revisions::renumber(ctx, &newest, number).await? } else { newest }
        }
        None => {
            let draft = Draft::of(set, template, HASH_LABEL, data, number)?;
            revisions::create(ctx, draft, collisions).await?
        }
    };
    Ok(History { current, old })
}

/// Labels a revision without a hash with its name.
async fn label(ctx: &Context, revision: &ControllerRevision) -> Result<Arc<ControllerRevision>> {
    let mut revision = revision.clone();
    let name = revision.name_any();
    revision.metadata.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), name);
    Ok(ctx.update(revision).await?)
}

/// Merges several revisions of the same template.
async fn merge(
    ctx: &Context,
    kept: &ControllerRevision,
    duplicates: Vec<Arc<ControllerRevision>>,
    pods: &[Arc<Pod>],
) -> Result<()> {
    let hashes: BTreeSet<&str> = duplicates.iter().map(|revision| hash(revision)).gather();
    let of_duplicate = |pod: &&Arc<Pod>| {
        let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL));
        label.is_some_and(|label| hashes.contains(label.as_str()))
    };
    for pod in pods.iter().filter(of_duplicate) {
        ctx.patch(pod, &Patch::Merge(json!({ "metadata": { "labels": { HASH_LABEL: hash(kept) } } }))).await?;
    }
    for revision in &duplicates {
        ctx.delete(revision).await?;
    }
    Ok(())
}

/// The oldest unused revisions beyond the history limit.
pub(super) fn surplus(
    old: &[Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
    limit: Option<i32>,
) -> Vec<Arc<ControllerRevision>> {
    let labels = pods.iter().filter_map(|pod| pod.metadata.labels.as_ref()?.get(HASH_LABEL));
    let live: BTreeSet<&str> = labels.map(String::as_str).gather();
    let mut sorted = old.to_vec();
    revisions::sort(&mut sorted);
    let surplus = old.len().saturating_sub(usize::try_from(limit.unwrap_or(10)).unwrap_or(0));
    sorted.into_iter().filter(|revision| !live.contains(hash(revision))).take(surplus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unused_revisions_are_surplus() {
        let revision = |number: i64| -> Arc<ControllerRevision> {
            let revision = json!({ "metadata": { "name": format!("r{number}"), "labels": { HASH_LABEL: format!("h{number}") } },
                "revision": number });
            Arc::new(serde_json::from_value(revision).unwrap())
        };
        let old = [revision(3), revision(1), revision(2)];
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "labels": { HASH_LABEL: "h1" } } })).unwrap();
        let pods = [Arc::new(pod)];
        let numbers = |limit| surplus(&old, &pods, limit).iter().map(|revision| revision.revision).collect::<Vec<_>>();
        assert_eq!(numbers(Some(0)), [2, 3]);
        assert_eq!(numbers(Some(1)), [2, 3]);
        assert_eq!(numbers(Some(2)), [2]);
        assert_eq!(numbers(None), [0; 0]);
    }
}
