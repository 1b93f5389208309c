//! The identities that dependents refer to.

use super::super::node::{Identity, Node};

/// Returns whether a dependent refers to this identity, and whether it refers to another one with the same UID: by
/// different data, or because it is in another namespace.
pub(super) fn matches(dependent: &Node, identity: &Identity) -> (bool, bool) {
    if identity.is_namespaced() && dependent.identity.namespace != identity.namespace {
        return (false, true);
    }
    let same = dependent.owners.iter().filter(|owner| owner.uid == identity.uid);
    let right = same.clone().any(|owner| owner.describes(identity));
    (right, same.into_iter().any(|owner| !owner.describes(identity)))
}

/// Another identity that dependents refer to by the same UID, after the given one was absent: the next in order, or the
/// first.
pub(super) fn alternative<'a>(dependents: impl Iterator<Item = &'a Node>, absent: &Identity) -> Option<Identity> {
    let mut candidates: Vec<Identity> = Vec::new();
    for dependent in dependents {
        for owner in dependent.owners.iter().filter(|owner| owner.uid == absent.uid) {
            let mut meant = owner.identity(&dependent.identity.namespace);
            if !absent.is_namespaced() && meant.kind == absent.kind {
                // A cluster-scoped kind has no namespace for any dependent.
                meant.namespace = absent.namespace.clone();
            }
            if meant != *absent {
                candidates.push(meant);
            }
        }
    }
    let next = candidates.iter().filter(|candidate| *candidate > absent).min();
    next.or_else(|| candidates.iter().min()).cloned()
}
