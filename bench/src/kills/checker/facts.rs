//! Everything that is known about revisions, from all observations together.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    super::history::{Call, Content, EventKind, History, Key, Micros, OpId, Operation, Outcome, Revision},
    Findings, Rule,
};

/// Event at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The object was written.
    Written(Content),
    /// The object was deleted; its last contents.
    Deleted(Content),
}

/// An observation.
#[derive(Debug, Clone, Copy)]
enum Source {
    Operation(usize),
    Event(usize, usize),
}

/// A revision that was observed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fact {
    pub(super) revision: Revision,
    pub(super) key: Key,
    pub(super) uid: u128,
    pub(super) change: Change,
    /// Time at which it was first observed.
    pub(super) seen: Micros,
    source: Source,
}

impl Fact {
    /// Returns the last write of the contents.
    fn writer(&self) -> OpId {
        let (Change::Written(content) | Change::Deleted(content)) = self.change;
        content.last
    }
}

/// All facts, and the operations they come from.
pub(super) struct Facts<'h> {
    pub(super) history: &'h History,
    /// In the order of revisions.
    pub(super) all: Vec<Fact>,
    /// Indexes of the facts of each object.
    pub(super) of_key: BTreeMap<Key, Vec<usize>>,
    operations: HashMap<OpId, &'h Operation>,
    /// Revisions of writes.
    placed: HashMap<OpId, Revision>,
    /// Writes of unknown outcome that were never observed; a deletion leaves no mark, so it is always among them.
    open: HashMap<Key, Vec<&'h Operation>>,
    /// Acknowledged deletions by UID.
    deletions: HashMap<u128, Vec<&'h Operation>>,
}

impl<'h> Facts<'h> {
    /// Combines all observations of a history.
    pub(super) fn gather(history: &'h History, findings: &mut Findings<'_>) -> Self {
        let operations = history.operations.iter().map(|operation| (operation.id, operation)).collect();
        let mut facts = Self {
            history,
            all: Vec::new(),
            of_key: BTreeMap::new(),
            operations,
            placed: HashMap::new(),
            open: HashMap::new(),
            deletions: HashMap::new(),
        };
        let mut found: BTreeMap<Revision, Fact> = BTreeMap::new();
        let mut clashes = HashSet::new();
        for fact in observations(history) {
            match found.get_mut(&fact.revision) {
                None => {
                    found.insert(fact.revision, fact);
                }
                Some(known) if (known.key, known.uid, known.change) == (fact.key, fact.uid, fact.change) => {
                    if fact.seen < known.seen {
                        *known = fact;
                    }
                }
                // The same contradiction may be observed many times.
                Some(known) if clashes.insert((fact.revision, fact.key, fact.writer())) => {
                    facts.clash(*known, fact, findings);
                }
                Some(_) => {}
            }
        }
        facts.all = found.into_values().collect();
        for (index, fact) in facts.all.iter().enumerate() {
            facts.of_key.entry(fact.key).or_default().push(index);
        }
        facts.placed = facts.place(findings);
        for operation in &history.operations {
            match (operation.call.key(), &operation.outcome) {
                (Some(key), Outcome::Unknown)
                    if operation.call.is_write() && !facts.placed.contains_key(&operation.id) =>
                {
                    facts.open.entry(key).or_default().push(operation);
                }
                (_, Outcome::Deleted(uid)) => facts.deletions.entry(*uid).or_default().push(operation),
                _ => {}
            }
        }
        facts
    }

    /// Reports two contents of one revision. The write that was acknowledged first is lost.
    fn clash(&self, known: Fact, other: Fact, findings: &mut Findings<'_>) {
        let acknowledged = |fact: &Fact| match fact.change {
            Change::Written(content) => self.operation(content.last).filter(|it| it.is_acknowledged_write()),
            Change::Deleted(_) => None,
        };
        let first = [&known, &other].into_iter().filter_map(acknowledged).min_by_key(|operation| operation.end);
        findings.verdict.lost.extend(first.map(|operation| operation.id));
        let what = format!("revision {}", known.revision);
        let lines = vec![self.describe(&known), self.describe(&other)];
        findings.add(Rule::RevisionReused, what, lines, Some(known.key), known.seen);
    }

    /// Returns the revisions of writes.
    fn place(&self, findings: &mut Findings<'_>) -> HashMap<OpId, Revision> {
        let mut placed = HashMap::new();
        for fact in &self.all {
            let (Change::Written(content) | Change::Deleted(content)) = fact.change;
            let report = |rule: Rule, what: String, findings: &mut Findings<'_>| {
                findings.add(rule, what, vec![self.describe(fact)], Some(fact.key), fact.seen);
            };
            let Some(writer) = self.operations.get(&content.last) else {
                report(Rule::Phantom, format!("{} has contents of no write", fact.key), findings);
                continue;
            };
            let could = writer.call.is_write() && writer.call.key() == Some(fact.key);
            let rejected = !matches!(writer.outcome, Outcome::Object(_) | Outcome::Unknown);
            if !could || rejected {
                report(Rule::Phantom, format!("{} has the contents of {writer}", fact.key), findings);
            }
            if matches!(fact.change, Change::Deleted(_)) {
                continue;
            }
            let acknowledged = match &writer.outcome {
                Outcome::Object(version) => version.revision,
                _ => fact.revision,
            };
            let before = placed.insert(writer.id, fact.revision);
            if acknowledged != fact.revision || before.is_some() {
                report(Rule::WriteTwice, writer.to_string(), findings);
            }
        }
        placed
    }

    pub(super) fn operation(&self, id: OpId) -> Option<&'h Operation> {
        self.operations.get(&id).copied()
    }

    /// Returns the operation that wrote a version; `None` for deletions and contents of no write.
    pub(super) fn writer(&self, fact: &Fact) -> Option<&'h Operation> {
        match fact.change {
            Change::Written(content) => self.operation(content.last),
            Change::Deleted(_) => None,
        }
    }

    /// Returns the writes of a key whose effect, if any, was never observed.
    pub(super) fn open(&self, key: Key) -> impl Iterator<Item = &'h Operation> {
        self.open.get(&key).into_iter().flatten().copied()
    }

    /// Returns whether an operation is a write of unknown outcome without a known revision.
    pub(super) fn is_open(&self, id: OpId) -> bool {
        let unknown = self.operation(id).is_some_and(|operation| operation.outcome == Outcome::Unknown);
        unknown && !self.placed.contains_key(&id)
    }

    /// Returns the acknowledged deletions of a UID.
    pub(super) fn deletions(&self, uid: u128) -> &[&'h Operation] {
        self.deletions.get(&uid).map_or(&[], Vec::as_slice)
    }

    /// Returns the operations that may have deleted an object: the acknowledged one, otherwise those of unknown
    /// outcome, except for deletions of a version older than the last one known.
    pub(super) fn may_have_deleted(&self, key: Key, uid: u128, last: Revision) -> Vec<&'h Operation> {
        let acknowledged = self.deletions(uid);
        if !acknowledged.is_empty() {
            return acknowledged.to_vec();
        }
        let fits = |operation: &&Operation| match operation.call {
            Call::Delete(_, expected) => expected.is_none_or(|expected| expected >= last),
            _ => false,
        };
        self.open(key).filter(fits).collect()
    }

    /// Returns the last fact of a key up to a revision.
    pub(super) fn last_of(&self, key: Key, revision: Revision) -> Option<&Fact> {
        let indexes = self.of_key.get(&key)?;
        let after = indexes.partition_point(|index| self.all[*index].revision <= revision);
        Some(&self.all[indexes[after.checked_sub(1)?]])
    }

    /// Returns the first fact of a key after a revision.
    pub(super) fn next_of(&self, key: Key, revision: Revision) -> Option<&Fact> {
        let indexes = self.of_key.get(&key)?;
        let after = indexes.partition_point(|index| self.all[*index].revision <= revision);
        indexes.get(after).map(|index| &self.all[*index])
    }

    /// Returns the observation of a fact as a line.
    pub(super) fn describe(&self, fact: &Fact) -> String {
        let source = match fact.source {
            Source::Operation(index) => self.history.operations[index].to_string(),
            Source::Event(watch, event) => self.history.watches[watch].events[event].to_string(),
        };
        let (Change::Written(content) | Change::Deleted(content)) = fact.change;
        let change = if matches!(fact.change, Change::Written(_)) { "written" } else { "deleted, last written" };
        format!("revision {}: {} {change} by #{}, seen in {source}", fact.revision, fact.key, content.last.0)
    }

    pub(super) fn unknown_that_took_effect(&self) -> usize {
        let unknown = |operation: &&Operation| operation.outcome == Outcome::Unknown;
        self.placed.keys().filter_map(|id| self.operation(*id)).filter(unknown).count()
    }
}

/// Returns everything that was observed, in the order of the history.
fn observations(history: &History) -> impl Iterator<Item = Fact> {
    let from_operations = history.operations.iter().enumerate().flat_map(|(index, operation)| {
        let single = match (&operation.outcome, operation.call.key()) {
            (Outcome::Object(version), Some(key)) => Some((key, *version)),
            _ => None,
        };
        let items = match &operation.outcome {
            Outcome::Listed { items, .. } => items.as_slice(),
            _ => &[],
        };
        single.into_iter().chain(items.iter().copied()).map(move |(key, version)| Fact {
            revision: version.revision,
            key,
            uid: version.uid,
            change: Change::Written(version.content),
            seen: operation.end,
            source: Source::Operation(index),
        })
    });
    let from_watches = history.watches.iter().enumerate().flat_map(|(watch, stream)| {
        stream.events.iter().enumerate().map(move |(index, event)| Fact {
            revision: event.version.revision,
            key: event.key,
            uid: event.version.uid,
            change: match event.kind {
                EventKind::Deleted => Change::Deleted(event.version.content),
                _ => Change::Written(event.version.content),
            },
            seen: event.at,
            source: Source::Event(watch, index),
        })
    });
    from_operations.chain(from_watches)
}
