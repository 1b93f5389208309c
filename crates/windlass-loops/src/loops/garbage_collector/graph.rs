//! The graph of owners and dependents as reported by watches: pure; the consequences of a change are [`Effect`]s.
//!
//! An owner that no watch has seen yet is in the graph as a *virtual* node, because a dependent refers to it. The
//! garbage collector then reads it from the server; if it does not exist, its dependents are processed. A dependent's
//! reference (kind, name, and its own namespace as the location) may be wrong; only a watch knows the truth, and only
//! correct references count.

mod alternatives;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use hashbrown::{DefaultHashBuilder, HashTable};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    node::{Identity, Names, Node, Observed, Owner, Phase, Source, Uid},
    recent::Recent,
};
use alternatives::{alternative, matches};

/// Number of absent owners that are cached, so that not every dependent checks them again.
const REMEMBERED: usize = 500;

/// A consequence of a change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Check whether the object has to be deleted.
    Attempt(Uid),
    /// Remove the object from its dependents' references, then let it be deleted.
    Orphan(Uid),
    /// Report that the dependent's owner is in another namespace.
    WrongNamespace { dependent: Identity, owner: Owner },
}

/// Time at which an owner was deleted with orphaning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Orphaned {
    /// Objects last written before this resource version existed then.
    pub(super) until: u64,
    /// Time of the initial list: objects created before it existed then, even if they were written later.
    pub(super) since: Option<Timestamp>,
}

/// The properties of a node that matter for a decision.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) identity: Identity,
    pub(super) is_virtual: bool,
    pub(super) phase: Phase,
    pub(super) has_dependents: bool,
    /// Whether a dependent blocks its foreground deletion.
    pub(super) is_blocked: bool,
    /// Whether a dependent waits for its own dependents: this may be a cycle.
    pub(super) dependent_waits: bool,
}

pub(super) struct Graph {
    pub(super) names: Names,
    nodes: Vec<Option<Node>>,
    free: Vec<u32>,
    /// Indices of nodes, by UID.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    absent: Recent<Identity, ()>,
    orphaned: Recent<Uid, Orphaned>,
    /// Whether unseen owners are looked up: not before the first lists are complete.
    started: bool,
    effects: Vec<Effect>,
}

impl Graph {
    pub(super) fn new() -> Self {
        Self {
            names: Names::default(),
            nodes: Vec::new(),
            free: Vec::new(),
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            absent: Recent::new(REMEMBERED),
            orphaned: Recent::new(REMEMBERED),
            started: false,
            effects: Vec::new(),
        }
    }

    /// Returns the effects since the last call.
    pub(super) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Starts to look up unseen owners.
    pub(super) fn start(&mut self) {
        self.started = true;
        let unseen = self.nodes.iter().flatten().filter(|node| node.is_virtual());
        self.effects.extend(unseen.map(|node| Effect::Attempt(node.identity.uid.clone())));
    }

    /// Adds or updates an object that a watch reports.
    pub(super) fn observe(&mut self, source: Source, observed: Observed) {
        let Observed { identity, owners, phase } = observed;
        let Some(at) = self.find(&identity.uid) else {
            let node =
                Node { identity, owners: owners.clone(), dependents: Default::default(), phase, source: Some(source) };
            let at = self.insert(node);
            self.link(at, &owners);
            self.transition(at, Phase::default(), phase);
            return;
        };
        if self.node(at).is_virtual() && self.node(at).identity != identity {
            self.question_dependents(at, &identity);
        }
        let node = self.node_mut(at);
        node.identity = identity;
        node.source = Some(source);
        let before = std::mem::replace(&mut node.phase, phase);
        if node.owners != owners {
            let old = std::mem::replace(&mut node.owners, owners.clone());
            self.change_owners(at, &old, &owners);
        }
        self.transition(at, before, phase);
    }

    /// Removes an object that a watch reports as deleted.
    pub(super) fn gone(&mut self, uid: &Uid) {
        if let Some(at) = self.find(uid) {
            self.remove(at);
        }
    }

    /// Removes a deleted object of which only the name is known.
    pub(super) fn gone_by_name(&mut self, source: Source, namespace: &str, name: &str) {
        let named = |node: &&Node| {
            node.source == Some(source) && &*node.identity.namespace == namespace && &*node.identity.name == name
        };
        if let Some(uid) = self.nodes.iter().flatten().find(named).map(|node| node.identity.uid.clone()) {
            self.gone(&uid);
        }
    }

    /// Removes all objects of a watch that are not in its list.
    pub(super) fn only(&mut self, source: Source, listed: &HashSet<Uid>) {
        let gone = |node: &&Node| node.source == Some(source) && !listed.contains(&node.identity.uid);
        let gone: Vec<Uid> = self.nodes.iter().flatten().filter(gone).map(|node| node.identity.uid.clone()).collect();
        gone.iter().for_each(|uid| self.gone(uid));
    }

    /// Handles a resource that is no longer served. Its objects may still exist, so no dependent loses an owner.
    pub(super) fn unserved(&mut self, source: Source) {
        for at in 0..self.nodes.len() {
            let Some(node) = self.nodes[at].as_mut().filter(|node| node.source == Some(source)) else { continue };
            let at = u32::try_from(at).expect("an index must fit in 32 bits");
            node.source = None;
            let owners = std::mem::take(&mut node.owners);
            let forgotten = node.dependents.is_empty();
            let uid = node.identity.uid.clone();
            self.unlink(at, &owners);
            if forgotten {
                self.take_out(at);
            } else {
                self.effects.push(Effect::Attempt(uid));
            }
        }
    }

    /// Handles that the server has no such object. It may have one with that UID elsewhere.
    pub(super) fn verified_absent(&mut self, identity: &Identity) {
        let Some(at) = self.find(&identity.uid) else { return };
        let node = self.node(at);
        let (is_virtual, same) = (node.is_virtual(), node.identity == *identity);
        if !is_virtual && same {
            return self.remove(at);
        }
        let (matching, others) = self.partition(at, identity);
        if is_virtual && others.is_empty() {
            self.node_mut(at).identity = identity.clone();
            return self.remove(at);
        }
        // Dependents with this wrong reference have no owner; others may still have one.
        if !matching.is_empty() {
            self.absent.insert(identity.clone(), ());
            matching.into_iter().for_each(|dependent| self.attempt(dependent));
        }
        if is_virtual && same {
            let dependents = others.iter().map(|&dependent| self.node(dependent));
            // It is looked up again like all unseen owners, with growing backoff.
            if let Some(next) = alternative(dependents, identity) {
                self.node_mut(at).identity = next;
            }
        }
    }

    /// Remembers an owner that does not exist.
    pub(super) fn remember_absent(&mut self, identity: Identity) {
        self.absent.insert(identity, ());
    }

    pub(super) fn is_absent(&self, identity: &Identity) -> bool {
        self.absent.get(identity).is_some()
    }

    /// Remembers an owner that was deleted with orphaning.
    pub(super) fn remember_orphaned(&mut self, uid: Uid, when: Orphaned) {
        self.orphaned.insert(uid, when);
    }

    /// Returns whether an owner was deleted with orphaning while this dependent existed.
    pub(super) fn was_orphaned(&self, owner: &Uid, dependent: &ObjectMeta) -> bool {
        let revision = dependent.resource_version.as_deref().and_then(|text| text.parse::<u64>().ok());
        let made = dependent.creation_timestamp.as_ref().map(|time| time.0);
        self.orphaned.get(owner).is_some_and(|when| {
            revision.is_some_and(|revision| revision < when.until)
                || made.zip(when.since).is_some_and(|(made, since)| made <= since)
        })
    }

    pub(super) fn item(&self, uid: &Uid) -> Option<Item> {
        let node = self.node(self.find(uid)?);
        let mut dependents = node.dependents.iter().map(|&at| self.node(at));
        // Each check stops as early as possible: an owner may have thousands of dependents, and is checked after each.
        let blocks = |dependent: &Node| dependent.owners.iter().any(|owner| owner.uid == *uid && owner.blocks);
        Some(Item {
            identity: node.identity.clone(),
            is_virtual: node.is_virtual(),
            phase: node.phase,
            has_dependents: !node.dependents.is_empty(),
            is_blocked: node.phase.waits() && dependents.clone().any(blocks),
            dependent_waits: !node.phase.deleting && dependents.any(|dependent| dependent.phase.waits()),
        })
    }

    /// The dependents of an object.
    pub(super) fn dependents(&self, uid: &Uid) -> Vec<Identity> {
        let Some(at) = self.find(uid) else { return Vec::new() };
        self.node(at).dependents.iter().map(|&at| self.node(at).identity.clone()).collect()
    }

    /// The number of nodes.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Links a node to its owners. Unseen owners become virtual nodes.
    fn link(&mut self, at: u32, owners: &[Owner]) {
        let (mut doubtful, mut waited_for) = (false, false);
        for owner in owners {
            let Some(owner_at) = self.find(&owner.uid) else {
                let identity = owner.identity(&self.node(at).identity.namespace);
                let uid = identity.uid.clone();
                let dependents = [at].into();
                self.insert(Node { identity, owners: [].into(), dependents, phase: Phase::default(), source: None });
                if self.started {
                    self.effects.push(Effect::Attempt(uid));
                }
                continue;
            };
            self.node_mut(owner_at).dependents.insert(at);
            let (node, found) = (self.node(at), self.node(owner_at));
            waited_for |= found.phase.waits();
            let same_namespace = found.identity.namespace == node.identity.namespace;
            if found.identity.is_namespaced() && !same_namespace {
                if !found.is_virtual() && !doubtful {
                    self.report_wrong_namespace(at, owner);
                }
                doubtful = true;
            } else if !owner.describes(&found.identity) || (!same_namespace && found.is_virtual()) {
                doubtful = true;
            }
        }
        if doubtful || waited_for {
            self.attempt(at);
        }
    }

    fn unlink(&mut self, at: u32, owners: &[Owner]) {
        for owner in owners {
            if let Some(owner_at) = self.find(&owner.uid) {
                self.node_mut(owner_at).dependents.remove(&at);
            }
        }
    }

    fn change_owners(&mut self, at: u32, old: &[Owner], new: &[Owner]) {
        let has = |owners: &[Owner], uid: &Uid| owners.iter().any(|owner| owner.uid == *uid);
        let mut removed = Vec::new();
        for owner in old {
            let blocks = new.iter().any(|other| other.uid == owner.uid && other.blocks);
            if owner.blocks && !blocks && self.find(&owner.uid).is_some() {
                self.effects.push(Effect::Attempt(owner.uid.clone()));
            }
            if !has(new, &owner.uid) {
                removed.push(owner.clone());
            }
        }
        let added: Vec<Owner> = new.iter().filter(|owner| !has(old, &owner.uid)).cloned().collect();
        self.link(at, &added);
        self.unlink(at, &removed);
    }

    /// The effects of a deletion that starts.
    fn transition(&mut self, at: u32, before: Phase, now: Phase) {
        if now.orphans() {
            if !before.orphans() {
                self.effects.push(Effect::Orphan(self.node(at).identity.uid.clone()));
            }
        } else if now.waits() && !before.waits() {
            let dependents: Vec<u32> = self.node(at).dependents.iter().copied().collect();
            dependents.into_iter().for_each(|dependent| self.attempt(dependent));
            self.attempt(at);
        }
    }

    /// Processes dependents with wrong references to a virtual node whose identity becomes known.
    fn question_dependents(&mut self, at: u32, identity: &Identity) {
        let (_, doubtful) = self.partition(at, identity);
        for dependent in doubtful {
            if identity.is_namespaced() && self.node(dependent).identity.namespace != identity.namespace {
                let owners = &self.node(dependent).owners;
                if let Some(owner) = owners.iter().find(|owner| owner.uid == identity.uid).cloned() {
                    self.report_wrong_namespace(dependent, &owner);
                }
            }
            self.attempt(dependent);
        }
    }

    /// Splits the dependents of a node into those whose reference matches this identity and those with another; a
    /// dependent with two references may be both.
    fn partition(&self, at: u32, identity: &Identity) -> (Vec<u32>, Vec<u32>) {
        let all = self.node(at).dependents.iter().copied();
        let matching = all.clone().filter(|&dependent| matches(self.node(dependent), identity).0).collect();
        (matching, all.filter(|&dependent| matches(self.node(dependent), identity).1).collect())
    }

    /// Removes a node; its dependents and the owners that may have waited for it are processed.
    fn remove(&mut self, at: u32) {
        let mut node = self.take_out(at);
        self.unlink(at, &node.owners);
        // It may own itself.
        node.dependents.remove(&at);
        if !node.dependents.is_empty() {
            self.absent.insert(node.identity, ());
        }
        node.dependents.into_iter().for_each(|dependent| self.attempt(dependent));
        for owner in &node.owners {
            if self.find(&owner.uid).is_some_and(|at| self.node(at).phase.waits()) {
                self.effects.push(Effect::Attempt(owner.uid.clone()));
            }
        }
    }

    fn report_wrong_namespace(&mut self, at: u32, owner: &Owner) {
        let dependent = self.node(at).identity.clone();
        self.effects.push(Effect::WrongNamespace { dependent, owner: owner.clone() });
    }

    fn attempt(&mut self, at: u32) {
        self.effects.push(Effect::Attempt(self.node(at).identity.uid.clone()));
    }

    fn insert(&mut self, node: Node) -> u32 {
        let hash = hash(&self.hasher, &node.identity.uid);
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = Some(node);
                at
            }
            None => {
                self.nodes.push(Some(node));
                u32::try_from(self.nodes.len() - 1).expect("there must be fewer than 2^32 objects")
            }
        };
        let Self { places, nodes, hasher, .. } = self;
        places.insert_unique(hash, at, |&at| hash_of(hasher, nodes, at));
        at
    }

    fn take_out(&mut self, at: u32) -> Node {
        let node = self.nodes[at as usize].take().expect("an index must have a node");
        let hash = hash(&self.hasher, &node.identity.uid);
        if let Ok(entry) = self.places.find_entry(hash, |&place| place == at) {
            entry.remove();
        }
        self.free.push(at);
        node
    }

    fn find(&self, uid: &Uid) -> Option<u32> {
        let hash = hash(&self.hasher, uid);
        self.places.find(hash, |&at| self.node(at).identity.uid == *uid).copied()
    }

    fn node(&self, at: u32) -> &Node {
        self.nodes[at as usize].as_ref().expect("an index must have a node")
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        self.nodes[at as usize].as_mut().expect("an index must have a node")
    }
}

fn hash(hasher: &DefaultHashBuilder, uid: &Uid) -> u64 {
    std::hash::BuildHasher::hash_one(hasher, uid)
}

fn hash_of(hasher: &DefaultHashBuilder, nodes: &[Option<Node>], at: u32) -> u64 {
    nodes[at as usize].as_ref().map_or(0, |node| hash(hasher, &node.identity.uid))
}
