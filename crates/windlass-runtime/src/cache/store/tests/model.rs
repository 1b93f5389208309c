//! A store against a model of a server, with changes, relists and acknowledgements in every possible order.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{super::*, state};
use crate::{
    cache::Packing,
    watch::{Decoder, Parse},
};

type Map = k8s_openapi::api::core::v1::ConfigMap;

/// By name.
type Objects = BTreeMap<u8, Arc<Map>>;

/// The next action.
#[derive(Clone, Debug)]
enum Act {
    /// An object is written or deleted. An own write is acknowledged later.
    Write {
        name: u8,
        own: bool,
        within: bool,
    },
    Delete {
        name: u8,
        own: bool,
    },
    /// One of the waiting own writes is acknowledged.
    Acknowledge(usize),
    /// The watch delivers this many changes.
    Watch(usize),
    Bookmark,
    /// The watch restarts from a list of a later revision.
    Relist(usize),
    /// The CRD is removed, with all objects.
    Remove,
    /// An object is read.
    Read(u8),
    /// Objects that were not read are packed.
    Sweep,
}

#[derive(Clone)]
enum Ack {
    Wrote(Arc<Map>),
    Deleted(ObjectKey, String),
}

/// A field stands for the label of the scope's selector.
fn is_within(object: &Map) -> bool {
    object.immutable == Some(true)
}

struct Server {
    revision: u64,
    /// The revision before the log, when there was nothing.
    began: u64,
    objects: Objects,
    /// Each change, and the state after it.
    log: Vec<(Change<Map>, u64, Objects)>,
}

impl Server {
    fn write(&mut self, name: u8, within: bool) -> Arc<Map> {
        self.revision += 1;
        let former = self.objects.get(&name).cloned();
        let uid = match &former {
            Some(former) => former.metadata.uid.clone().unwrap(),
            None => format!("uid-{}", self.revision),
        };
        let mut object = (*state(&name.to_string(), &uid, self.revision)).clone();
        object.immutable = Some(within);
        let object = Arc::new(object);
        self.objects.insert(name, object.clone());
        if within {
            self.log(Change::Apply(object.clone()));
        } else if former.is_some_and(|former| is_within(&former)) {
            self.log(Change::Delete(object.clone()));
        }
        object
    }

    fn delete(&mut self, name: u8) -> Option<Arc<Map>> {
        let object = self.objects.remove(&name)?;
        self.revision += 1;
        let last = state(&name.to_string(), object.metadata.uid.as_deref()?, self.revision);
        if is_within(&object) {
            self.log(Change::Delete(last.clone()));
        }
        Some(last)
    }

    fn log(&mut self, change: Change<Map>) {
        self.log.push((change, self.revision, self.within()));
    }

    /// Returns the result of a list within the scope.
    fn within(&self) -> Objects {
        self.objects
            .iter()
            .filter(|(_, object)| is_within(object))
            .map(|(name, object)| (*name, object.clone()))
            .collect()
    }
}

struct Model {
    /// Objects that are not read are packed, so nothing else may hold them.
    packs: bool,
    server: Server,
    /// Length of the log that the watch has delivered.
    delivered: usize,
    absent: bool,
    store: Store<Map>,
    /// State that a handler would know.
    replayed: BTreeMap<String, Arc<Map>>,
    /// The latest revision of each UID in the events.
    told: BTreeMap<String, u64>,
    waiting: Vec<(String, Ack)>,
    /// Acknowledged own writes: name, UID, revision, whether within the scope.
    written: Vec<(String, String, u64, bool)>,
    deleted: Vec<String>,
}

impl Model {
    fn new(packs: bool) -> Self {
        let packer =
            Packer::new(packs.then(|| Packing { above: 0, ..Packing::default() }), Decoder::unchanged(Parse::typed()));
        let server = Server { revision: 1, began: 1, objects: BTreeMap::new(), log: Vec::new() };
        Self {
            packs,
            server,
            delivered: 0,
            absent: true,
            store: Store::new(packer),
            replayed: BTreeMap::new(),
            told: BTreeMap::new(),
            waiting: Vec::new(),
            written: Vec::new(),
            deleted: Vec::new(),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Write { name, own, within } => {
                let object = self.server.write(name, within);
                if own {
                    self.waiting.push((object.metadata.uid.clone().unwrap(), Ack::Wrote(object)));
                }
            }
            Act::Delete { name, own } => {
                if let Some(object) = self.server.delete(name)
                    && own
                {
                    let uid = object.metadata.uid.clone().unwrap();
                    self.waiting.push((uid.clone(), Ack::Deleted(ObjectKey::of(&*object), uid)));
                }
            }
            Act::Acknowledge(which) if !self.waiting.is_empty() => {
                // A client that deletes an object knows it: acknowledgements of one object are in order.
                let uid = self.waiting[which % self.waiting.len()].0.clone();
                let first = self.waiting.iter().position(|(other, _)| *other == uid).unwrap();
                self.acknowledge(first);
            }
            Act::Watch(changes) if !self.absent => {
                for _ in 0..changes {
                    if let Some((change, ..)) = self.server.log.get(self.delivered) {
                        let change = change.clone();
                        self.delivered += 1;
                        self.apply(change);
                    }
                }
            }
            Act::Bookmark if !self.absent && self.delivered == self.server.log.len() => {
                self.apply(Change::Bookmark(self.server.revision));
            }
            Act::Relist(later) => self.relist(later),
            Act::Remove => {
                self.server.revision += 1;
                self.server.began = self.server.revision;
                self.server.objects.clear();
                self.server.log.clear();
                (self.delivered, self.absent) = (0, true);
                self.written.clear();
                self.waiting.clear();
                self.apply(Change::Absent);
            }
            Act::Read(name) => {
                if let Some(object) = self.store.get(("default", &name.to_string())) {
                    let read = object.read();
                    assert!(Arc::ptr_eq(&read, &object.read()), "an object that was read is parsed again");
                }
            }
            Act::Sweep if self.packs => {
                self.store.sweep(0..usize::MAX);
            }
            Act::Acknowledge(_) | Act::Watch(_) | Act::Bookmark | Act::Sweep => {}
        }
        self.check();
    }

    fn relist(&mut self, later: usize) {
        let at = (self.delivered + later).min(self.server.log.len());
        let (revision, objects) = match at.checked_sub(1).map(|last| &self.server.log[last]) {
            Some((_, revision, objects)) => (*revision, objects.clone()),
            None => (self.server.began, BTreeMap::new()),
        };
        // The list is requested at the known revision, so it is not older: a bookmark may be past the last change.
        let revision = revision.max(self.store.revision());
        (self.delivered, self.absent) = (at, false);
        self.apply(Change::Replace { objects: objects.into_values().collect(), unreadable: Vec::new(), revision });
    }

    fn acknowledge(&mut self, which: usize) {
        let mut events = Vec::new();
        match self.waiting.remove(which).1 {
            Ack::Wrote(object) => {
                let meta = &object.metadata;
                let revision = revision_of(&*object);
                let (name, uid) = (meta.name.clone().unwrap(), meta.uid.clone().unwrap());
                self.written.push((name, uid, revision, is_within(&object)));
                let fit = if is_within(&object) { ScopeMatch::Within } else { ScopeMatch::Outside };
                let object = self.own(&object);
                self.store.wrote(object, fit, false, &mut |event| events.push(event.open()));
            }
            Ack::Deleted(key, uid) => {
                self.store.deleted(&key, &uid, &mut |event| events.push(event.open()));
                self.deleted.push(uid);
            }
        }
        self.replay(events);
    }

    fn apply(&mut self, change: Change<Map>) {
        let change = match change {
            Change::Apply(object) => Change::Apply(self.own(&object)),
            Change::Delete(object) => Change::Delete(self.own(&object)),
            other => other.map(|object| Cell::new(self.own(&object))),
        };
        let mut events = Vec::new();
        self.store.apply(change, &mut |event| events.push(event.open()));
        self.replay(events);
    }

    /// Returns the object for another holder: a copy if it matters who holds one.
    fn own(&self, object: &Arc<Map>) -> Arc<Map> {
        if self.packs { Arc::new((**object).clone()) } else { object.clone() }
    }

    fn replay(&mut self, events: Vec<Event<Map>>) {
        for event in events {
            let object = event.object().clone();
            let (name, uid) = (object.metadata.name.clone().unwrap(), object.metadata.uid.clone().unwrap());
            let before = self.told.insert(uid, revision_of(&*object)).unwrap_or_default();
            assert!(before <= revision_of(&*object), "an object went back");
            match event {
                Event::Added { object, .. } => {
                    let object = self.own(&object);
                    assert!(self.replayed.insert(name, object).is_none(), "added twice");
                }
                Event::Updated { old, new } => {
                    assert!(old.metadata.uid == new.metadata.uid, "updated to another object");
                    let new = self.own(&new);
                    let held = self.replayed.insert(name, new).expect("an updated object must exist");
                    assert_eq!(held, old, "the old state was not sent");
                    assert!(self.packs || Arc::ptr_eq(&held, &old), "a state was copied");
                }
                Event::Deleted { .. } => assert!(self.replayed.remove(&name).is_some(), "deleted twice"),
            }
        }
    }

    /// Invariants that always hold.
    fn check(&self) {
        let held = self.store.iter().map(|object| (object.key().name().to_owned(), object.peek()));
        let held: BTreeMap<_, _> = held.collect();
        assert_eq!(held, self.replayed, "the events do not match the store");
        for (name, uid, revision, within) in &self.written {
            if self.written.iter().any(|(other, _, later, _)| other == name && later > revision) {
                continue;
            }
            let shown = match self.store.get(("default", name)) {
                Some(object) => object.revision() >= *revision,
                None => !within,
            };
            let passed = self.store.revision() >= *revision || self.deleted.contains(uid);
            assert!(shown || passed, "an own write of {name} at {revision} is not there");
        }
        for uid in &self.deleted {
            let shown = held.values().any(|object| object.metadata.uid.as_ref() == Some(uid));
            assert!(!shown, "an object that was deleted here is back");
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..3u8, any::<bool>(), prop::bool::weighted(0.7))
            .prop_map(|(name, own, within)| Act::Write { name, own, within }),
        3 => (0..3u8, any::<bool>()).prop_map(|(name, own)| Act::Delete { name, own }),
        6 => any::<usize>().prop_map(Act::Acknowledge),
        6 => (1..5usize).prop_map(Act::Watch),
        1 => Just(Act::Bookmark),
        2 => (0..8usize).prop_map(Act::Relist),
        1 => Just(Act::Remove),
        2 => (0..3u8).prop_map(Act::Read),
        4 => Just(Act::Sweep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn events_always_match_the_store_which_converges_to_the_server(
        acts in prop::collection::vec(act(), 1..60)
    ) {
        for packs in [false, true] {
            let mut model = Model::new(packs);
            for act in acts.clone() {
                model.act(act);
            }
            if model.absent {
                model.act(Act::Relist(usize::MAX / 2));
            }
            while !model.waiting.is_empty() {
                model.act(Act::Acknowledge(0));
            }
            model.act(Act::Watch(model.server.log.len()));
            model.act(Act::Bookmark);
            let server: BTreeMap<_, _> = model.server.within().into_iter().map(|(name, object)| (name.to_string(), object)).collect();
            prop_assert_eq!(model.replayed, server);
            prop_assert!(model.store.ahead.is_empty() && model.store.left.is_empty());
        }
    }
}
