//! What dependents mean by an owner.

use super::super::node::{Identity, Node};

/// Whether a dependent means this identity by its uid, and whether it means another: by a reference of the same uid
/// that says something else, or because it is in another namespace.
pub(super) fn matches(dependent: &Node, identity: &Identity) -> (bool, bool) {
    if identity.is_namespaced() && dependent.identity.namespace != identity.namespace {
        return (false, true);
    }
    let same = dependent.owners.iter().filter(|owner| owner.uid == identity.uid);
    let right = same.clone().any(|owner| owner.describes(identity));
    (right, same.into_iter().any(|owner| !owner.describes(identity)))
}

/// What else dependents mean by the uid of an identity that is not there: the next one in order, or the first.
pub(super) fn alternative<'a>(dependents: impl Iterator<Item = &'a Node>, absent: &Identity) -> Option<Identity> {
    let mut candidates: Vec<Identity> = Vec::new();
    for dependent in dependents {
        for owner in dependent.owners.iter().filter(|owner| owner.uid == absent.uid) {
            let mut meant = owner.identity(&dependent.identity.namespace);
            if !absent.is_namespaced() && meant.kind == absent.kind {
                // A kind that is not in namespaces is not for anybody else either.
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
