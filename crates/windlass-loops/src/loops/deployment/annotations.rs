//! Annotations of replica sets and deployments: revisions, and the sizes that they were scaled for.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

/// The number of a rollout. The newest replica set has the highest, and the deployment has the same.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a replica set that was rolled back to.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The deployment's size when the replica set was last scaled.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The maximum number of pods of all replica sets at that time.
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// The revision to roll back to, set by old clients.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// Maximum length of the history in bytes.
const LONGEST_HISTORY: usize = 2000;

/// Annotations that a replica set does not inherit from its deployment.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLBACK_TO,
];

type Annotations = BTreeMap<String, String>;

/// The revision of a replica set: 0 if it has none, `None` if it is not a number.
pub(super) fn revision(set: &ReplicaSet) -> Option<i64> {
    match set.metadata.annotations.as_ref().and_then(|annotations| annotations.get(REVISION)) {
        None => Some(0),
        Some(text) => text.parse().ok(),
    }
}

/// The highest revision.
pub(super) fn highest_revision<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter().filter_map(revision).max().unwrap_or_default().max(0)
}

/// Sets the inherited annotations of the newest replica set, and its revision if the current one is lower.
pub(super) fn update_newest(set: &mut ReplicaSet, deployment: &Deployment, revision: i64) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    copy(deployment.metadata.annotations.as_ref(), annotations);
    let before = annotations.get(REVISION).cloned();
    let Ok(number) = before.as_deref().filter(|text| !text.is_empty()).unwrap_or("0").parse::<i64>() else { return };
    if number >= revision {
        return;
    }
    annotations.insert(REVISION.to_owned(), revision.to_string());
    if let Some(before) = before
        && let Some(history) = with_revision(annotations.get(HISTORY).map_or("", String::as_str), &before)
    {
        annotations.insert(HISTORY.to_owned(), history);
    }
}

/// Appends a revision to the history; the oldest entries are dropped if it gets too long.
fn with_revision(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() {
        return Some(revision.to_owned());
    }
    let mut rest = history;
    while rest.len() + revision.len() + 1 > LONGEST_HISTORY {
        (_, rest) = rest.split_once(',')?;
    }
    Some(format!("{rest},{revision}"))
}

/// Copies the inherited annotations.
fn copy(from: Option<&Annotations>, to: &mut Annotations) {
    for (name, value) in from.into_iter().flatten().filter(|(name, _)| !OWN.contains(&name.as_str())) {
        to.insert(name.clone(), value.clone());
    }
}

/// Restores the annotations of a deployment that is rolled back to a replica set.
pub(super) fn restore(deployment: &mut Deployment, set: &ReplicaSet) {
    let annotations = deployment.metadata.annotations.get_or_insert_default();
    annotations.retain(|name, _| OWN.contains(&name.as_str()));
    copy(set.metadata.annotations.as_ref(), annotations);
}

/// Records the sizes that a replica set was scaled for.
pub(super) fn set_sizes(set: &mut ReplicaSet, desired: i32, most: i32) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED_REPLICAS.to_owned(), desired.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), most.to_string());
}

/// The deployment's size when the replica set was last scaled, if known.
pub(super) fn desired_replicas(set: &ReplicaSet) -> Option<i32> {
    number(set, DESIRED_REPLICAS)
}

/// The maximum number of pods at that time, if known.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    number(set, MAX_REPLICAS)
}

fn number(set: &ReplicaSet, name: &str) -> Option<i32> {
    let text = set.metadata.annotations.as_ref()?.get(name)?;
    text.parse().ok().filter(|number| *number >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(pairs: &[(&str, &str)]) -> Option<Annotations> {
        Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn after(set: &[(&str, &str)], deployment: &[(&str, &str)], revision: i64) -> Vec<(String, String)> {
        let mut changed = ReplicaSet::default();
        changed.metadata.annotations = annotated(set);
        let mut owner = Deployment::default();
        owner.metadata.annotations = annotated(deployment);
        update_newest(&mut changed, &owner, revision);
        changed.metadata.annotations.unwrap().into_iter().collect()
    }

    #[track_caller]
    fn check(after: Vec<(String, String)>, expected: &[(&str, &str)]) {
        let after: Vec<_> = after.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(after, expected);
    }

    #[test]
    fn the_newest_set_has_the_highest_revision_and_a_history() {
        check(after(&[], &[], 1), &[(REVISION, "1")]);
        check(after(&[(REVISION, "3")], &[], 2), &[(REVISION, "3")]);
        check(after(&[(REVISION, "1")], &[], 3), &[(REVISION, "3"), (HISTORY, "1")]);
        let twice = after(&[(REVISION, "3"), (HISTORY, "1")], &[], 5);
        check(twice, &[(REVISION, "5"), (HISTORY, "1,3")]);
        check(after(&[(REVISION, "x")], &[("a", "b")], 5), &[("a", "b"), (REVISION, "x")]);
    }

    #[test]
    fn annotations_are_copied_except_for_the_sets_own() {
        let deployment = [("kubernetes.io/change-cause", "because"), (REVISION, "7"), (DESIRED_REPLICAS, "9")];
        let expected = [(REVISION, "1"), ("kubernetes.io/change-cause", "because")];
        check(after(&[], &deployment, 1), &expected);
    }

    #[test]
    fn a_long_history_loses_its_oldest_revisions() {
        let long = vec!["1234567"; 250].join(",");
        assert_eq!(long.len(), 1999);
        let longer = with_revision(&long, "99").unwrap();
        assert_eq!(longer.len(), 1999 - 8 + 3);
        assert!(longer.ends_with("1234567,99"));
        assert_eq!(with_revision(&"1".repeat(1999), "2"), None);
    }

    #[test]
    fn sizes_are_non_negative_numbers() {
        let mut set = ReplicaSet::default();
        assert_eq!(desired_replicas(&set), None);
        set_sizes(&mut set, 3, 4);
        assert_eq!((desired_replicas(&set), max_replicas(&set)), (Some(3), Some(4)));
        for nonsense in ["-1", "x", "99999999999"] {
            set.metadata.annotations.as_mut().unwrap().insert(MAX_REPLICAS.to_owned(), nonsense.to_owned());
            assert_eq!(max_replicas(&set), None, "{nonsense}");
        }
    }
}
