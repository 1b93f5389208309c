//! Gets and rejected requests: each reveals the state of the object at one moment between its beginning and its end.

use super::{
    super::history::{Call, Key, Micros, Operation, Outcome, Revision, Version},
    Findings, Rule,
    facts::Facts,
    objects::{Incarnation, Objects},
    order::Bounds,
};

/// Checks all gets, and all writes that were rejected because of the state of the object.
pub(super) fn check(facts: &Facts<'_>, bounds: &Bounds, objects: &Objects, findings: &mut Findings<'_>) {
    let reads = Reads { facts, bounds, objects };
    for operation in &facts.history.operations {
        let Some(key) = operation.call.key() else { continue };
        let broken = match (&operation.outcome, operation.call) {
            (Outcome::Object(version), Call::Get(_)) => {
                reads.stale(key, version, operation).map(|what| (Rule::StaleRead, what))
            }
            (Outcome::NotFound, _) if !reads.may_be_absent(key, operation) => {
                Some((Rule::StaleRead, format!("{key} was not found, but existed all the time")))
            }
            (Outcome::Exists, _) if !reads.may_exist(key, operation) => {
                Some((Rule::UnexplainedRejection, format!("{key} did not exist")))
            }
            (Outcome::Conflict, Call::Put(_, expected) | Call::Delete(_, Some(expected)))
                if !reads.may_conflict(key, expected, operation) =>
            {
                Some((Rule::UnexplainedRejection, format!("{key} was at revision {expected} all the time")))
            }
            (Outcome::Deleted(uid), _) => reads.misplaced(key, *uid, operation).map(|what| (Rule::StaleRead, what)),
            _ => None,
        };
        if let Some((rule, what)) = broken {
            findings.add(rule, what, vec![operation.to_string()], Some(key), operation.begin);
        }
    }
}

struct Reads<'c, 'h> {
    facts: &'c Facts<'h>,
    bounds: &'c Bounds,
    objects: &'c Objects,
}

impl Reads<'_, '_> {
    fn incarnations(&self, key: Key) -> &[Incarnation] {
        self.objects.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Returns why a get returned an old version.
    fn stale(&self, key: Key, version: &Version, get: &Operation) -> Option<String> {
        if let Some(next) = self.facts.next_of(key, version.revision)
            && self.bounds.latest(next.revision) < get.begin
        {
            return Some(format!("{key} was read at {}, but was at {} before", version.revision, next.revision));
        }
        let deleted = self.facts.deletions(version.uid).iter().find(|deletion| deletion.end < get.begin)?;
        Some(format!("{key} was read after its deletion: {deleted}"))
    }

    /// Returns whether an object may have been absent at a moment of an operation.
    fn may_be_absent(&self, key: Key, operation: &Operation) -> bool {
        let incarnations = self.incarnations(key);
        // Each gap ends with the creation of an incarnation, and the last one never.
        let closes = |gap: usize| incarnations.get(gap).map_or(Micros::MAX, |next| self.bounds.latest(next.first));
        let opens = |gap: usize| match gap.checked_sub(1).map(|index| &incarnations[index]) {
            None => 0,
            Some(Incarnation { deleted: Some(revision), .. }) => self.bounds.earliest(*revision),
            Some(Incarnation { deletion: Some((begin, _)), last, .. }) => (*begin).max(self.bounds.earliest(*last)),
            Some(_) if gap < incarnations.len() => 0,
            Some(_) => Micros::MAX,
        };
        (0..=incarnations.len()).any(|gap| closes(gap) >= operation.begin && opens(gap) <= operation.end)
    }

    /// Returns whether an object may have existed at a moment of an operation.
    fn may_exist(&self, key: Key, operation: &Operation) -> bool {
        let incarnations = self.incarnations(key);
        let exists = |(index, incarnation): (usize, &Incarnation)| {
            let end = match incarnation.deleted {
                Some(revision) => self.bounds.latest(revision),
                None => incarnation.deletion.map_or(Micros::MAX, |(_, end)| end),
            };
            let next = incarnations.get(index + 1).map_or(Micros::MAX, |next| self.bounds.latest(next.first));
            incarnation.requested <= operation.end && end.min(next) >= operation.begin
        };
        let created = |other: &Operation| matches!(other.call, Call::Create(_)) && other.begin <= operation.end;
        incarnations.iter().enumerate().any(exists) || self.facts.open(key).any(created)
    }

    /// Returns whether an object may have had another revision than the expected one at some moment of an operation.
    fn may_conflict(&self, key: Key, expected: Revision, operation: &Operation) -> bool {
        let next = self.facts.next_of(key, expected);
        let changed = next.is_some_and(|next| self.bounds.earliest(next.revision) <= operation.end);
        let known = self.facts.last_of(key, expected);
        let deletions = known.map_or(&[][..], |fact| self.facts.deletions(fact.uid));
        let deleted = deletions.iter().any(|deletion| deletion.begin <= operation.end);
        changed || deleted || self.facts.open(key).any(|other| other.begin <= operation.end)
    }

    /// Returns why an acknowledged deletion does not fit between the last version and the next object of that name.
    fn misplaced(&self, key: Key, uid: u128, deletion: &Operation) -> Option<String> {
        let incarnations = self.incarnations(key);
        let index = incarnations.iter().position(|incarnation| incarnation.uid == uid)?;
        if self.bounds.earliest(incarnations[index].last) > deletion.end {
            return Some(format!("{key} was written at revision {} after its deletion", incarnations[index].last));
        }
        let next = incarnations.get(index + 1)?;
        let existed = self.bounds.latest(next.first) < deletion.begin;
        existed.then(|| format!("{key} was deleted after its successor existed at revision {}", next.first))
    }
}
