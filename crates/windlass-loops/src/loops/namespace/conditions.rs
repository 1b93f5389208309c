//! The conditions of a terminating namespace. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{NamespaceCondition, NamespaceStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::contents::Contents;

/// A possible obstacle to the deletion: its condition, and the message if there is none.
struct Obstacle {
    name: &'static str,
    absent: (&'static str, &'static str),
    present: &'static str,
}

#[rustfmt::skip]
const OBSTACLES: [Obstacle; 5] = [
    Obstacle {
        name: "NamespaceDeletionDiscoveryFailure",
        absent: ("ResourcesDiscovered", "All resources successfully discovered"),
        present: "DiscoveryFailed",
    },
    Obstacle {
        name: "NamespaceDeletionGroupVersionParsingFailure",
        absent: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        present: "GroupVersionParsingFailed",
    },
    Obstacle {
        name: "NamespaceDeletionContentFailure",
        absent: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        present: "ContentDeletionFailed",
    },
    Obstacle {
        name: "NamespaceContentRemaining",
        absent: ("ContentRemoved", "All content successfully removed"),
        present: "SomeResourcesRemain",
    },
    Obstacle {
        name: "NamespaceFinalizersRemaining",
        absent: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        present: "SomeFinalizersRemain",
    },
];

/// Updates the conditions. Returns whether one changed.
pub(super) fn update(status: &mut NamespaceStatus, contents: &Contents, now: Timestamp) -> bool {
    let conditions = status.conditions.get_or_insert_default();
    let mut changed = false;
    for (obstacle, message) in OBSTACLES.iter().zip(messages(contents)) {
        let (status, reason, message) = match message {
            Some(message) => ("True", obstacle.present, message),
            None => ("False", obstacle.absent.0, obstacle.absent.1.to_owned()),
        };
        let Some(known) = conditions.iter_mut().find(|condition| condition.type_ == obstacle.name) else {
            changed = true;
            conditions.push(NamespaceCondition {
                type_: obstacle.name.to_owned(),
                status: status.to_owned(),
                last_transition_time: Some(Time(now)),
                reason: Some(reason.to_owned()),
                message: Some(message),
            });
            continue;
        };
        let same = known.reason.as_deref() == Some(reason) && known.message.as_deref() == Some(&message);
        if known.status != status {
            known.last_transition_time = Some(Time(now));
        } else if same {
            continue;
        }
        changed = true;
        known.status = status.to_owned();
        known.reason = Some(reason.to_owned());
        known.message = Some(message);
    }
    changed
}

/// The messages, in the order of [`OBSTACLES`].
fn messages(contents: &Contents) -> [Option<String>; 5] {
    let mut failures = contents.failures.clone();
    failures.sort();
    let failed = (!failures.is_empty())
        .then(|| format!("Failed to delete all resource types, {} remaining: {}", failures.len(), failures.join(", ")));
    let mut resources = Vec::new();
    let mut finalizers = Vec::new();
    // While pods remain, other objects are not counted, as in kube-controller-manager.
    if !contents.only_pods {
        let one = |(resource, count): &(kube::core::ApiResource, usize)| {
            format!("{}.{} has {count} resource instances", resource.plural, resource.group)
        };
        resources = contents.remaining.iter().map(one).collect();
        resources.sort();
        let one = |(name, count): (&String, &usize)| format!("{name} in {count} resource instances");
        finalizers = contents.finalizers.iter().map(one).collect();
        finalizers.sort();
    }
    let listed = |text: &str, items: Vec<String>| (!items.is_empty()).then(|| format!("{text}: {}", items.join(", ")));
    [
        contents.discovery_failure.clone(),
        // Group and version arrive separately, so there is nothing to parse.
        None,
        failed,
        listed("Some resources are remaining", resources),
        listed("Some content in the namespace has finalizers remaining", finalizers),
    ]
}

#[cfg(test)]
mod tests {
    use kube::core::ApiResource;

    use super::*;

    fn resource(group: &str, plural: &str) -> ApiResource {
        ApiResource {
            group: group.into(),
            version: "v1".into(),
            api_version: String::new(),
            kind: String::new(),
            plural: plural.into(),
        }
    }

    fn described(status: &NamespaceStatus) -> Vec<String> {
        let one = |condition: &NamespaceCondition| {
            let NamespaceCondition { type_, status, reason, message, last_transition_time } = condition;
            let at = last_transition_time.as_ref().unwrap().0.as_second();
            format!("{at} {type_}={status} {}: {}", reason.as_deref().unwrap(), message.as_deref().unwrap())
        };
        status.conditions.iter().flatten().map(one).collect()
    }

    #[test]
    fn conditions_report_remaining_objects_and_change_only_with_them() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut status = NamespaceStatus::default();
        let mut contents = Contents {
            remaining: vec![(resource("example.com", "foos"), 2), (resource("", "configmaps"), 1)],
            finalizers: [("b/hold".to_owned(), 2), ("a/hold".to_owned(), 1)].into(),
            ..Contents::default()
        };
        assert!(update(&mut status, &contents, at(1)));
        assert_eq!(
            described(&status)[2..],
            [
                "1 NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be \
                 waiting on finalization",
                "1 NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 \
                 resource instances, foos.example.com has 2 resource instances",
                "1 NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has \
                 finalizers remaining: a/hold in 1 resource instances, b/hold in 2 resource instances",
            ]
        );
        assert!(!update(&mut status, &contents, at(2)));
        contents.remaining.pop();
        assert!(update(&mut status, &contents, at(3)));
        assert!(described(&status)[3].starts_with("1 NamespaceContentRemaining=True"), "no transition");
        let failed = Contents {
            discovery_failure: Some("no answer".into()),
            failures: vec!["b".into(), "a".into()],
            ..Contents::default()
        };
        assert!(update(&mut status, &failed, at(4)));
        assert_eq!(
            described(&status),
            [
                "4 NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: no answer",
                "1 NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types \
                 successfully parsed",
                "4 NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 2 \
                 remaining: a, b",
                "4 NamespaceContentRemaining=False ContentRemoved: All content successfully removed",
                "4 NamespaceFinalizersRemaining=False ContentHasNoFinalizers: All content-preserving finalizers \
                 finished",
            ]
        );
    }

    #[test]
    fn remaining_pods_are_not_counted() {
        let mut status = NamespaceStatus::default();
        let contents = Contents { only_pods: true, remaining: vec![(resource("", "pods"), 1)], ..Contents::default() };
        assert!(update(&mut status, &contents, Timestamp::UNIX_EPOCH));
        assert!(status.conditions.unwrap().iter().all(|condition| condition.status == "False"));
    }
}
