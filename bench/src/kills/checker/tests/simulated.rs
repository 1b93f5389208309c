//! Random histories of a correct store with concurrent clients and crashes: all must pass, and each must fail once a
//! bug is added to it.

use std::collections::BTreeMap;

use super::*;
use crate::kills::random::Random;

const CLIENTS: usize = 5;
const KEYS: u32 = 4;
const STEPS: usize = 1500;
const SEEDS: u64 = 60;

type State = BTreeMap<Key, Version>;

/// A request in progress.
struct Pending {
    id: OpId,
    call: Call,
    begin: u64,
    /// The outcome, once it has taken effect.
    outcome: Option<Outcome>,
}

struct Simulation {
    random: Random,
    now: u64,
    revision: u64,
    state: State,
    /// All states by revision.
    states: BTreeMap<u64, State>,
    log: Vec<(EventKind, Seen)>,
    pending: Vec<Option<Pending>>,
    /// The newest version of each object that was returned to a client.
    seen: State,
    next: u32,
    history: History,
}

impl Simulation {
    fn run(seed: u64) -> Self {
        let mut simulation = Self {
            random: Random::new(seed, 0),
            now: 0,
            revision: 1,
            state: State::new(),
            states: BTreeMap::from([(1, State::new())]),
            log: Vec::new(),
            pending: (0..CLIENTS).map(|_| None).collect(),
            seen: State::new(),
            next: 0,
            history: History::default(),
        };
        for _ in 0..STEPS {
            simulation.now += 1;
            let client = simulation.random.below(CLIENTS as u32) as usize;
            match simulation.pending[client].as_ref().map(|pending| pending.outcome.is_some()) {
                _ if simulation.random.below(100) == 0 => simulation.crash(),
                None => simulation.begin(client),
                Some(false) => simulation.take_effect(client),
                Some(true) => simulation.end(client),
            }
        }
        simulation.crash();
        for call in [Call::Create(Key(KEYS)), Call::List(ListKind::Consistent)] {
            simulation.start(0, call);
            simulation.take_effect(0);
            simulation.end(0);
        }
        simulation.watch();
        simulation
    }

    fn begin(&mut self, client: usize) {
        let key = Key(self.random.below(KEYS));
        let expected = self.seen.get(&key).map(|version| version.revision);
        let call = match (self.random.below(10), expected) {
            (0 | 1, _) => Call::Create(key),
            (2 | 3, Some(revision)) => Call::Put(key, revision),
            (4, _) => Call::Patch(key),
            (5, _) => Call::Delete(key, expected.filter(|revision| revision.is_multiple_of(2))),
            (6, _) => Call::List(ListKind::Consistent),
            (7, _) => Call::List(ListKind::Cached),
            _ => Call::Get(key),
        };
        self.start(client, call);
    }

    fn start(&mut self, client: usize, call: Call) {
        self.next += 1;
        self.pending[client] = Some(Pending { id: OpId(self.next), call, begin: self.now, outcome: None });
        self.now += 1;
    }

    fn take_effect(&mut self, client: usize) {
        let Some(mut pending) = self.pending[client].take() else { return };
        pending.outcome = Some(self.apply(pending.id, pending.call));
        self.pending[client] = Some(pending);
    }

    fn apply(&mut self, id: OpId, call: Call) -> Outcome {
        let current = call.key().and_then(|key| self.state.get(&key).copied());
        match (call, current) {
            (Call::List(_), _) => {
                let items = self.state.iter().map(|(key, version)| (*key, *version)).collect();
                Outcome::Listed { revision: self.revision, items }
            }
            (Call::Create(_), Some(_)) => Outcome::Exists,
            (Call::Create(key), None) => {
                let content = Content { created: id, put: id, patch: OpId(0), last: id };
                self.write(key, u128::from(id.0) << 96, content, EventKind::Added)
            }
            (_, None) => Outcome::NotFound,
            (Call::Get(_), Some(version)) => Outcome::Object(version),
            (Call::Put(_, expected) | Call::Delete(_, Some(expected)), Some(version))
                if version.revision != expected =>
            {
                Outcome::Conflict
            }
            (Call::Put(key, _), Some(version)) => {
                let content = Content { put: id, last: id, ..version.content };
                self.write(key, version.uid, content, EventKind::Modified)
            }
            (Call::Patch(key), Some(version)) => {
                let content = Content { patch: id, last: id, ..version.content };
                self.write(key, version.uid, content, EventKind::Modified)
            }
            (Call::Delete(key, _), Some(version)) => {
                self.write(key, version.uid, version.content, EventKind::Deleted);
                Outcome::Deleted(version.uid)
            }
        }
    }

    fn write(&mut self, key: Key, uid: u128, content: Content, kind: EventKind) -> Outcome {
        // Other resources are written as well.
        self.revision += 1 + u64::from(self.random.below(3) == 0);
        let version = Version { revision: self.revision, uid, content };
        match kind {
            EventKind::Deleted => self.state.remove(&key),
            _ => self.state.insert(key, version),
        };
        self.states.insert(self.revision, self.state.clone());
        self.log.push((kind, Seen(key, version)));
        Outcome::Object(version)
    }

    fn end(&mut self, client: usize) {
        let Some(Pending { id, call, begin, outcome: Some(outcome) }) = self.pending[client].take() else { return };
        if let (Outcome::Object(version), Some(key)) = (&outcome, call.key()) {
            self.seen.insert(key, *version);
        }
        self.record(client, Pending { id, call, begin, outcome: Some(outcome) });
    }

    fn record(&mut self, client: usize, pending: Pending) {
        let outcome = pending.outcome.unwrap_or(Outcome::Unknown);
        let (client, end) = (u32::try_from(client).unwrap(), self.now);
        let Pending { id, call, begin, .. } = pending;
        self.history.operations.push(Operation { id, client, server: 0, call, begin, end, outcome });
        self.now += 1;
    }

    /// Loses all responses; requests that had not taken effect do so now, or never.
    fn crash(&mut self) {
        self.history.faults.push(Mark { at: self.now, what: "a crash".to_owned() });
        for client in 0..CLIENTS {
            let Some(pending) = self.pending[client].take() else { continue };
            if pending.outcome.is_none() && self.random.below(2) == 0 {
                self.apply(pending.id, pending.call);
            }
            self.record(client, Pending { outcome: None, ..pending });
        }
    }

    /// Watches everything in pieces, some of which are lost together with their events.
    fn watch(&mut self) {
        let end = self.now + 1;
        let mut after = 1;
        let mut rest = self.log.as_slice();
        while !rest.is_empty() {
            let (piece, others) = rest.split_at((1 + self.random.below(20) as usize).min(rest.len()));
            let is_last = others.is_empty();
            if is_last || self.random.below(3) > 0 {
                let events = piece.iter().map(|(kind, Seen(key, version))| WatchEvent {
                    kind: *kind,
                    key: *key,
                    version: *version,
                    at: end,
                });
                let stream = WatchStream { watcher: 0, after, begin: 0, events: events.collect(), complete_to: None };
                self.history.watches.push(stream);
            }
            after = piece.last().map_or(after, |(_, seen)| seen.1.revision);
            rest = others;
        }
        if let Some(last) = self.history.watches.last_mut() {
            last.complete_to = Some(after);
        }
    }

    /// Returns the acknowledged creates, updates and patches.
    fn acknowledged(&self) -> impl Iterator<Item = (&Operation, Version)> {
        self.history.operations.iter().filter_map(|operation| match operation.outcome {
            Outcome::Object(version) if operation.call.is_write() => Some((operation, version)),
            _ => None,
        })
    }
}

#[test]
fn histories_of_a_correct_store_pass() {
    let mut took_effect = 0;
    for seed in 0..SEEDS {
        let verdict = check(&Simulation::run(seed).history);
        let described: Vec<String> = verdict.violations.iter().map(ToString::to_string).collect();
        assert!(described.is_empty() && verdict.lost.is_empty(), "seed {seed}: {}", described.join("\n"));
        took_effect += verdict.took_effect;
    }
    assert!(took_effect > 0, "no write of unknown outcome took effect");
}

#[test]
fn an_event_that_is_removed_from_a_watch_is_found() {
    for seed in 0..SEEDS {
        let simulation = Simulation::run(seed);
        let known: Vec<u64> = simulation.acknowledged().map(|(_, version)| version.revision).collect();
        let mut history = simulation.history.clone();
        let removed = history.watches.iter_mut().find_map(|stream| {
            let inner = stream.events.len().checked_sub(1)?;
            let index = stream.events[..inner].iter().position(|event| known.contains(&event.version.revision))?;
            Some(stream.events.remove(index))
        });
        let removed = removed.expect("a watch must have an event that is known otherwise");
        let rules = Story(history).rules();
        assert!(rules.contains(&Rule::WatchLostEvent), "seed {seed}: {removed}: {rules:?}");
    }
}

#[test]
fn a_list_that_is_replaced_by_an_older_state_is_found() {
    let mut replaced = 0;
    for seed in 0..SEEDS {
        let simulation = Simulation::run(seed);
        let mut history = simulation.history.clone();
        let list = history.operations.iter_mut().rev().find(|it| it.call == Call::List(ListKind::Consistent)).unwrap();
        // The state before the last acknowledged write that ended before the list began.
        let before = simulation.acknowledged().filter(|(operation, _)| operation.end < list.begin);
        let newest = before.map(|(_, version)| version.revision).max().expect("something must have been written");
        let Some((revision, state)) = simulation.states.range(..newest).next_back() else { continue };
        let items = state.iter().map(|(key, version)| (*key, *version)).collect();
        list.outcome = Outcome::Listed { revision: *revision, items };
        let rules = Story(history).rules();
        assert!(rules.contains(&Rule::StaleRead), "seed {seed}: {rules:?}");
        replaced += 1;
    }
    assert!(replaced > 0);
}

#[test]
fn acknowledged_writes_that_a_crash_undoes_are_found() {
    let mut undone = 0;
    for seed in 0..SEEDS {
        let simulation = Simulation::run(seed);
        let mut history = simulation.history.clone();
        let Some(Operation { outcome: Outcome::Listed { items, .. }, .. }) = history.operations.last_mut() else {
            panic!("the last operation must be a list");
        };
        // An object is at its last acknowledged version; the version before it, or nothing, takes its place.
        let last = |key: Key| items.iter().position(|(other, _)| *other == key);
        let found = simulation.acknowledged().filter(|(operation, _)| operation.call.key() != Some(Key(KEYS)));
        let found = found.filter_map(|(operation, version)| Some((last(operation.call.key()?)?, version)));
        let Some((index, version)) = found.filter(|(index, version)| items[*index].1 == *version).last() else {
            continue;
        };
        let key = items[index].0;
        let (_, state) = simulation.states.range(..version.revision).next_back().unwrap();
        match state.get(&key) {
            Some(before) => items[index].1 = *before,
            None => drop(items.remove(index)),
        }
        let verdict = check(&history);
        // A deletion of unknown outcome explains that an object is missing.
        if verdict.violations.is_empty() {
            assert!(!state.contains_key(&key), "seed {seed}: {key} at {version}");
            continue;
        }
        assert!(verdict.lost.contains(&version.content.last), "seed {seed}: {key} at {version}: {:?}", verdict.lost);
        undone += 1;
    }
    assert!(undone > 0);
}
