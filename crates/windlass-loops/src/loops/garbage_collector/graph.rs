//! Who owns whom, as far as watches have told: pure, and what follows from a change comes out as [`Effect`]s.
//!
//! An owner that no watch has seen yet is in the graph all the same, as a *virtual* node, because somebody names it.
//! Whether it exists is then looked up at the server: if it does not, its dependents are looked at. What a dependent
//! says about its owner (kind, name, and by its own namespace where it is) may be wrong; only a watch knows, and only
//! references that say the right thing count.

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

/// How many owners that are gone are remembered, so that not every dependent asks for them again.
const REMEMBERED: usize = 500;

/// What is to be done after a change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Look whether the object is to go.
    Attempt(Uid),
    /// Take the object out of its dependents' owners, then let it go.
    Orphan(Uid),
    /// Tell the dependent's watchers that its owner is in another namespace.
    WrongNamespace { dependent: Identity, owner: Owner },
}

/// When an owner was let go without its dependents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Orphaned {
    /// What was written last before this was there then.
    pub(super) until: u64,
    /// What was made up to this was there then, whatever was written since.
    pub(super) since: Option<Timestamp>,
}

/// A node as deciding about it needs it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) identity: Identity,
    pub(super) is_virtual: bool,
    pub(super) phase: Phase,
    pub(super) has_dependents: bool,
    /// There is a dependent that its foreground deletion waits for.
    pub(super) is_blocked: bool,
    /// A dependent waits for its own dependents: this may be a circle.
    pub(super) dependent_waits: bool,
}

pub(super) struct Graph {
    pub(super) names: Names,
    nodes: Vec<Option<Node>>,
    free: Vec<u32>,
    /// Places of nodes, by their uids.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    absent: Recent<Identity, ()>,
    orphaned: Recent<Uid, Orphaned>,
    /// Whether owners that nobody has seen are looked for: not before the first lists have come.
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

    /// What has come of the changes since this was asked last.
    pub(super) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// From now on owners that nobody has seen are looked for.
    pub(super) fn start(&mut self) {
        self.started = true;
        let unseen = self.nodes.iter().flatten().filter(|node| node.is_virtual());
        self.effects.extend(unseen.map(|node| Effect::Attempt(node.identity.uid.clone())));
    }

    /// An object is there, as a watch says.
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

    /// An object is gone, as a watch says.
    pub(super) fn gone(&mut self, uid: &Uid) {
        if let Some(at) = self.find(uid) {
            self.remove(at);
        }
    }

    /// An object is gone of which only the name is known.
    pub(super) fn gone_by_name(&mut self, source: Source, namespace: &str, name: &str) {
        let named = |node: &&Node| {
            node.source == Some(source) && &*node.identity.namespace == namespace && &*node.identity.name == name
        };
        if let Some(uid) = self.nodes.iter().flatten().find(named).map(|node| node.identity.uid.clone()) {
            self.gone(&uid);
        }
    }

    /// A watch has listed everything it sees: what is not among it is gone.
    pub(super) fn only(&mut self, source: Source, listed: &HashSet<Uid>) {
        let gone = |node: &&Node| node.source == Some(source) && !listed.contains(&node.identity.uid);
        let gone: Vec<Uid> = self.nodes.iter().flatten().filter(gone).map(|node| node.identity.uid.clone()).collect();
        gone.iter().for_each(|uid| self.gone(uid));
    }

    /// A resource is not served any more. Its objects may be there all the same, so nobody loses an owner by that.
    pub(super) fn unserved(&mut self, source: Source) {
        for at in 0..self.nodes.len() {
            let Some(node) = self.nodes[at].as_mut().filter(|node| node.source == Some(source)) else { continue };
            let at = u32::try_from(at).expect("a place must fit");
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

    /// The server has no such object. It may have one of that uid elsewhere.
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
        // Those that say what is not there have no owner; the others may still have one.
        if !matching.is_empty() {
            self.absent.insert(identity.clone(), ());
            matching.into_iter().for_each(|dependent| self.attempt(dependent));
        }
        if is_virtual && same {
            let dependents = others.iter().map(|&dependent| self.node(dependent));
            // It is looked for again as all that nobody has seen are, later each time.
            if let Some(next) = alternative(dependents, identity) {
                self.node_mut(at).identity = next;
            }
        }
    }

    /// An owner that is known to be gone.
    pub(super) fn remember_absent(&mut self, identity: Identity) {
        self.absent.insert(identity, ());
    }

    pub(super) fn is_absent(&self, identity: &Identity) -> bool {
        self.absent.get(identity).is_some()
    }

    /// An owner was let go without its dependents.
    pub(super) fn remember_orphaned(&mut self, uid: Uid, when: Orphaned) {
        self.orphaned.insert(uid, when);
    }

    /// Whether an owner was let go without its dependents, of which this one was there.
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
        // Each looks at no more dependents than it must: an owner may have thousands, and is asked for after each.
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

    /// How many nodes there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Tells owners of a node that they have it. An owner that nobody has seen becomes a virtual node.
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

    /// What the beginning of a deletion asks for.
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

    /// A virtual node turns out to be something else than it was taken for: whoever named it wrongly is looked at.
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

    /// The dependents of a node that mean this identity by its uid, and those that mean another; one that names it
    /// twice may be both.
    fn partition(&self, at: u32, identity: &Identity) -> (Vec<u32>, Vec<u32>) {
        let all = self.node(at).dependents.iter().copied();
        let matching = all.clone().filter(|&dependent| matches(self.node(dependent), identity).0).collect();
        (matching, all.filter(|&dependent| matches(self.node(dependent), identity).1).collect())
    }

    /// Takes a node out that is gone; its dependents are looked at, and owners that may have waited for it.
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
                u32::try_from(self.nodes.len() - 1).expect("there must be fewer objects than that")
            }
        };
        let Self { places, nodes, hasher, .. } = self;
        places.insert_unique(hash, at, |&at| hash_of(hasher, nodes, at));
        at
    }

    fn take_out(&mut self, at: u32) -> Node {
        let node = self.nodes[at as usize].take().expect("a place must have its node");
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
        self.nodes[at as usize].as_ref().expect("a place must have its node")
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        self.nodes[at as usize].as_mut().expect("a place must have its node")
    }
}

fn hash(hasher: &DefaultHashBuilder, uid: &Uid) -> u64 {
    std::hash::BuildHasher::hash_one(hasher, uid)
}

fn hash_of(hasher: &DefaultHashBuilder, nodes: &[Option<Node>], at: u32) -> u64 {
    nodes[at as usize].as_ref().map_or(0, |node| hash(hasher, &node.identity.uid))
}
