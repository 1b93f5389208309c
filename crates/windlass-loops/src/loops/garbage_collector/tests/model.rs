//! Random owners, deletions and delays, checked against invariants of the final state.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use futures_util::FutureExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::super::{
    Task,
    cluster::{Cluster, Deleted, Failed, Outcome, attempt, orphan},
    decide::Policy,
    graph::{Effect, Graph},
    node::{FOREGROUND, Identity, Kind, ORPHAN, Uid},
};

const HOLD: &str = "example.com/hold";
/// The last one is cluster-scoped.
const KINDS: [&str; 3] = ["Foo", "Bar", "Cluster"];

#[derive(Clone)]
struct Object {
    kind: usize,
    owners: Vec<(u32, bool)>,
    /// Its initial owners.
    born_of: Vec<u32>,
    born_at: u64,
    finalizers: Vec<String>,
    /// Time at which its deletion started.
    deleting: Option<u64>,
    revision: u64,
}

enum Event {
    Is(Box<ObjectMeta>),
    Gone(Uid),
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<u32, Object>,
    made: u32,
    /// Undelivered events, by kind.
    events: [VecDeque<Event>; 3],
    /// Time at which owners with orphaning started to be deleted.
    orphaned: BTreeMap<u32, u64>,
    broken: Vec<String>,
}

/// A server that responds at once while its watches are slow.
#[derive(Default)]
struct Fake(Mutex<State>);

fn uid(id: u32) -> String {
    format!("u{id}")
}

fn time(revision: u64) -> Time {
    Time(jiff::Timestamp::from_second(i64::try_from(revision).unwrap()).unwrap())
}

fn id(uid: &Uid) -> u32 {
    uid.to_string()[1..].parse().unwrap()
}

impl State {
    fn meta(&self, id: u32) -> Option<ObjectMeta> {
        let object = self.objects.get(&id)?;
        let owner = |&(owner, blocks): &(u32, bool)| OwnerReference {
            api_version: "example.com/v1".into(),
            kind: KINDS[self.kind_of(owner)].into(),
            name: format!("o{owner}"),
            uid: uid(owner),
            block_owner_deletion: blocks.then_some(true),
            controller: None,
        };
        Some(ObjectMeta {
            name: Some(format!("o{id}")),
            namespace: (object.kind < 2).then(|| "n".into()),
            uid: Some(uid(id)),
            resource_version: Some(object.revision.to_string()),
            owner_references: Some(object.owners.iter().map(owner).collect()),
            finalizers: Some(object.finalizers.clone()),
            // One tick of the clock per revision.
            creation_timestamp: Some(time(object.born_at)),
            deletion_timestamp: object.deleting.map(time),
            ..ObjectMeta::default()
        })
    }

    /// The kind follows from the number of an object, so that deleted objects have one too.
    fn kind_of(&self, id: u32) -> usize {
        id as usize % 3
    }

    fn create(&mut self, picks: &[u8], blocks: bool, held: bool) {
        let new = self.made;
        self.made += 1;
        let kind = self.kind_of(new);
        let mut owners = BTreeSet::new();
        for &pick in picks {
            let owner = u32::from(pick) % (new + 1);
            // Cluster-scoped objects have no namespaced owners.
            if owner != new && (kind < 2 || self.kind_of(owner) == 2) {
                owners.insert(owner);
            }
        }
        self.revision += 1;
        let object = Object {
            kind,
            owners: owners.iter().map(|&owner| (owner, blocks)).collect(),
            born_of: owners.into_iter().collect(),
            born_at: self.revision,
            finalizers: if held { vec![HOLD.into()] } else { Vec::new() },
            deleting: None,
            revision: self.revision,
        };
        self.objects.insert(new, object);
        self.changed(new);
    }

    fn changed(&mut self, id: u32) {
        self.revision += 1;
        let Some(object) = self.objects.get_mut(&id) else { return };
        object.revision = self.revision;
        let kind = object.kind;
        if object.deleting.is_some() && object.finalizers.is_empty() {
            self.objects.remove(&id);
            self.events[kind].push_back(Event::Gone(Uid::new(&uid(id))));
        } else if let Some(meta) = self.meta(id) {
            self.events[kind].push_back(Event::Is(Box::new(meta)));
        }
    }

    fn delete(&mut self, id: u32, policy: Policy) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        object.deleting = object.deleting.or(Some(self.revision));
        let begun = object.deleting.unwrap_or_default();
        object.finalizers.retain(|name| name == HOLD);
        match policy {
            Policy::Background => {}
            Policy::Foreground => object.finalizers.push(FOREGROUND.into()),
            Policy::Orphan => object.finalizers.push(ORPHAN.into()),
        }
        if policy == Policy::Orphan {
            self.orphaned.insert(id, begun);
        } else {
            self.orphaned.remove(&id);
        }
        self.changed(id);
    }

    /// Checks whether the collector may delete an object now.
    fn check_deletion(&mut self, id: u32) {
        let object = &self.objects[&id];
        let there = |owner: &u32| {
            self.objects.get(owner).is_some_and(|owner| {
                !(owner.deleting.is_some() && owner.finalizers.iter().any(|name| name == FOREGROUND))
            })
        };
        let owners: Vec<u32> = object.owners.iter().map(|&(owner, _)| owner).collect();
        if owners.is_empty() || owners.iter().any(there) {
            self.broken.push(format!("{id} was deleted though it has {owners:?}"));
        }
        let left = |owner: &u32| self.orphaned.get(owner).is_some_and(|&begun| object.born_at < begun);
        if object.born_of.iter().all(left) {
            self.broken.push(format!("{id} was deleted though {:?} left it behind", object.born_of));
        }
    }

    /// Checks the invariants when nothing is left to do.
    fn check_end(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.broken.is_empty(), "{:?}", self.broken);
        for (id, object) in &self.objects {
            let has = |name: &str| object.finalizers.iter().any(|have| have == name);
            prop_assert!(!(object.deleting.is_some() && has(ORPHAN)), "{id} still orphans");
            let blocks = |other: &Object| other.owners.iter().any(|(owner, blocks)| owner == id && *blocks);
            if object.deleting.is_some() && has(FOREGROUND) {
                prop_assert!(self.objects.values().any(blocks), "{id} waits for nobody");
            }
            let there = |(owner, _): &(u32, bool)| self.objects.contains_key(owner);
            if !object.owners.is_empty() && object.deleting.is_none() {
                prop_assert!(object.owners.iter().any(there), "{id} stays without {:?}", object.owners);
            }
            if object.deleting.is_none() {
                prop_assert!(object.owners.iter().all(there), "{id} remembers some of {:?}", object.owners);
            }
        }
        Ok(())
    }
}

impl Cluster for Fake {
    fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        Some(&*kind.kind != KINDS[2])
    }

    async fn get(&self, object: &Identity) -> Result<Option<ObjectMeta>, Failed> {
        Ok(self.0.lock().meta(id(&object.uid)))
    }

    async fn delete(&self, object: &Identity, revision: Option<&str>, policy: Policy) -> Result<Deleted, Failed> {
        let mut state = self.0.lock();
        let id = id(&object.uid);
        let Some(now) = state.objects.get(&id) else { return Ok(Deleted::Missing) };
        if revision.is_some_and(|revision| revision != now.revision.to_string()) {
            return Ok(Deleted::Changed);
        }
        state.check_deletion(id);
        state.delete(id, policy);
        Ok(Deleted::Done)
    }

    async fn unlink(&self, object: &Identity, owners: &[Uid]) -> Result<bool, Failed> {
        let (mut state, id_) = (self.0.lock(), id(&object.uid));
        let Some(now) = state.objects.get_mut(&id_) else { return Ok(false) };
        now.owners.retain(|(owner, _)| !owners.iter().any(|uid| id(uid) == *owner));
        state.changed(id_);
        Ok(true)
    }

    async fn unblock(&self, object: &Identity, _owners: &[OwnerReference]) -> Result<bool, Failed> {
        let (mut state, id) = (self.0.lock(), id(&object.uid));
        let Some(now) = state.objects.get_mut(&id) else { return Ok(false) };
        now.owners.iter_mut().for_each(|(_, blocks)| *blocks = false);
        state.changed(id);
        Ok(true)
    }

    async fn remove_finalizer(&self, object: &Identity, finalizer: &str) -> Result<Option<ObjectMeta>, Failed> {
        let (mut state, id) = (self.0.lock(), id(&object.uid));
        let Some(now) = state.objects.get_mut(&id) else { return Ok(None) };
        now.finalizers.retain(|name| name != finalizer);
        let mut meta = state.meta(id);
        state.changed(id);
        let revision = state.revision.to_string();
        meta.iter_mut().for_each(|meta| meta.resource_version = Some(revision.clone()));
        Ok(meta)
    }
}

/// The collector, one step at a time.
struct Collector {
    fake: Fake,
    graph: Mutex<Graph>,
    tasks: VecDeque<Task>,
}

impl Collector {
    fn deliver(&mut self, kind: usize) -> bool {
        let Some(event) = self.fake.0.lock().events[kind].pop_front() else { return false };
        let mut graph = self.graph.lock();
        match event {
            Event::Gone(uid) => graph.gone(&uid),
            Event::Is(meta) => {
                let name = graph.names.kind("example.com/v1", KINDS[kind]);
                let observed = graph.names.observed(&name, &meta).unwrap();
                graph.observe(u16::try_from(kind).unwrap(), observed);
            }
        }
        true
    }

    fn collect_effects(&mut self) {
        let waiting: HashSet<Task> = self.tasks.iter().cloned().collect();
        for effect in self.graph.lock().effects() {
            let task = match effect {
                Effect::Attempt(uid) => Task::Attempt(uid),
                Effect::Orphan(uid) => Task::Orphan(uid),
                Effect::WrongNamespace { .. } => continue,
            };
            if !waiting.contains(&task) {
                self.tasks.push_back(task);
            }
        }
    }

    /// Processes one task. Returns whether it is done.
    fn work(&mut self) -> bool {
        let Some(task) = self.tasks.pop_front() else { return false };
        let outcome = match &task {
            Task::Attempt(uid) => attempt(&self.graph, &self.fake, uid).now_or_never(),
            Task::Orphan(uid) => orphan(&self.graph, &self.fake, uid).now_or_never(),
        };
        let done = matches!(outcome, Some(Outcome::Done));
        if !done {
            self.tasks.push_back(task);
        }
        done
    }

    fn finish(&mut self) {
        for _ in 0..20_000 {
            let delivered = (0..3).filter(|&kind| self.deliver(kind)).count();
            self.collect_effects();
            if !self.work() && delivered == 0 && self.tasks.is_empty() {
                return;
            }
        }
        panic!("it does not end: {:?}", self.tasks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_objects_without_owners_are_deleted(steps in prop::collection::vec((0..10u8, any::<u8>(), any::<[u8; 2]>()), 1..80)) {
        let mut graph = Graph::new();
        graph.start();
        let mut collector = Collector { fake: Fake::default(), graph: Mutex::new(graph), tasks: VecDeque::new() };
        for (step, one, two) in steps {
            let pick = |state: &State| u32::from(one) % state.made.max(1);
            match step {
                0..=2 => {
                    let picks = &two[..usize::from(one % 3)];
                    collector.fake.0.lock().create(picks, one & 8 != 0, one & 48 == 48);
                }
                3 | 4 => {
                    let mut state = collector.fake.0.lock();
                    let id = pick(&state);
                    let policy = [Policy::Background, Policy::Foreground, Policy::Orphan][usize::from(two[0] % 3)];
                    if state.objects.get(&id).is_some_and(|object| object.deleting.is_none()) {
                        state.delete(id, policy);
                    }
                }
                5 => {
                    let mut state = collector.fake.0.lock();
                    let id = pick(&state);
                    if let Some(object) = state.objects.get_mut(&id) {
                        object.finalizers.retain(|name| name != HOLD);
                        state.changed(id);
                    }
                }
                6 | 7 => {
                    collector.deliver(usize::from(one % 3));
                    collector.collect_effects();
                }
                _ => {
                    collector.work();
                    collector.collect_effects();
                }
            }
        }
        collector.finish();
        collector.fake.0.lock().check_end()?;
        // Nothing is kept that is no longer needed.
        let there = collector.fake.0.lock().objects.len();
        let owners: usize = collector.fake.0.lock().objects.values().map(|object| object.owners.len()).sum();
        prop_assert!(collector.graph.lock().len() <= there + owners);
    }
}
