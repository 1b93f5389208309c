//! Controller revisions of a daemon set. Pure.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use windlass_schema::sorting::Gather as _;

use super::fit::HASH_LABEL;
use crate::revisions;

/// The revision of the current template, and the others.
pub(super) struct History {
    pub(super) current: Arc<ControllerRevision>,
    pub(super) old: Vec<Arc<ControllerRevision>>,
}

/// The hash in the labels of a revision's pods.
pub(super) fn hash(revision: &ControllerRevision) -> &str {
    revision.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL)).map_or("", String::as_str)
}

/// Returns the pods of other revisions of the same template.
pub(super) fn pods_of<'a>(
    duplicates: &[Arc<ControllerRevision>],
    pods: &'a [Arc<Pod>],
) -> impl Iterator<Item = &'a Arc<Pod>> {
    let hashes: BTreeSet<String> = duplicates.iter().map(|revision| hash(revision).to_owned()).gather();
    pods.iter().filter(move |pod| {
        let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL));
        label.is_some_and(|label| hashes.contains(label))
    })
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
    use serde_json::json;

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
