//! Deciding whether an object is deleted. Pure.

use super::{
    graph::Item,
    node::{Phase, Uid},
};

/// The state of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It exists.
    Solid,
    /// It exists, and is deleted when its dependents are gone.
    Waiting,
    /// It does not exist.
    Gone,
    /// It was deleted with orphaning, and this object was one of its dependents.
    Orphaned,
}

/// The deletion propagation policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    /// Remove these owners from its references.
    Unlink(Vec<Uid>),
    Delete {
        policy: Policy,
        /// Clear `blockOwnerDeletion` first: the object may be part of a cycle.
        unblock: bool,
    },
}

/// Decides about an object. `phase` is its latest deletion state on the server.
pub(super) fn decide(item: &Item, owners: &[(Uid, Standing)], phase: Phase) -> Verdict {
    let is = |standing: Standing| move |owner: &&(Uid, Standing)| owner.1 == standing;
    let of = |wanted: fn(Standing) -> bool| -> Vec<Uid> {
        owners.iter().filter(|(_, standing)| wanted(*standing)).map(|(uid, _)| uid.clone()).collect()
    };
    if owners.iter().any(|owner| is(Standing::Solid)(&owner)) {
        let others = of(|standing| standing != Standing::Solid);
        return if others.is_empty() { Verdict::Keep } else { Verdict::Unlink(others) };
    }
    if owners.iter().all(|owner| is(Standing::Orphaned)(&owner)) {
        let all = of(|_| true);
        return if all.is_empty() { Verdict::Keep } else { Verdict::Unlink(all) };
    }
    if item.has_dependents && owners.iter().any(|owner| is(Standing::Waiting)(&owner)) {
        return Verdict::Delete { policy: Policy::Foreground, unblock: item.dependent_waits };
    }
    let policy = match phase {
        Phase { orphan: true, .. } => Policy::Orphan,
        Phase { foreground: true, .. } => Policy::Foreground,
        _ => Policy::Background,
    };
    Verdict::Delete { policy, unblock: false }
}

#[cfg(test)]
mod tests {
    use super::{super::node::Names, Standing::*, *};

    fn check(owners: &[Standing], has_dependents: bool, finalizers: &[&str], expected: &str) {
        let mut names = Names::default();
        let meta = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            uid: Some("self".into()),
            finalizers: Some(finalizers.iter().map(|&name| name.to_owned()).collect()),
            ..Default::default()
        };
        let kind = names.kind("v1", "ConfigMap");
        let observed = names.observed(&kind, &meta).unwrap();
        let item = Item {
            identity: observed.identity,
            is_virtual: false,
            phase: observed.phase,
            has_dependents,
            is_blocked: false,
            dependent_waits: has_dependents,
        };
        let owners: Vec<_> = owners.iter().enumerate().map(|(at, &how)| (Uid::new(&format!("{at}")), how)).collect();
        let verdict = match decide(&item, &owners, observed.phase) {
            Verdict::Keep => "keep".to_owned(),
            Verdict::Unlink(owners) => format!("unlink {owners:?}"),
            Verdict::Delete { policy, unblock } => format!("{policy:?}{}", if unblock { ", unblocked" } else { "" }),
        };
        assert_eq!(verdict, expected, "{owners:?} {has_dependents} {finalizers:?}");
    }

    #[test]
    fn the_decision_follows_from_the_owners() {
        check(&[], false, &[], "keep");
        check(&[Solid], false, &[], "keep");
        check(&[Solid, Gone], false, &[], "unlink [1]");
        check(&[Waiting, Solid, Gone, Orphaned], true, &[], "unlink [0, 2, 3]");
        check(&[Gone], false, &[], "Background");
        check(&[Gone, Gone], true, &[], "Background");
        check(&[Gone], true, &["orphan"], "Orphan");
        check(&[Gone], true, &["foregroundDeletion"], "Foreground");
        check(&[Waiting], false, &[], "Background");
        check(&[Waiting], true, &[], "Foreground, unblocked");
        check(&[Waiting, Gone], true, &["orphan"], "Foreground, unblocked");
        check(&[Orphaned], false, &[], "unlink [0]");
        check(&[Orphaned, Gone], false, &[], "Background");
    }
}
