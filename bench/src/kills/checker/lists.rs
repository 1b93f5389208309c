//! Lists: exactly the state at their revision. How old that revision may be is checked with the order of revisions.

use std::collections::HashMap;

use super::{
    super::history::{Call, History, Key, ListKind, Operation, Outcome, Revision, Version},
    Findings, Rule,
    facts::{Change, Fact, Facts},
    objects::Objects,
};

/// Checks all lists.
pub(super) fn check(facts: &Facts<'_>, objects: &Objects, findings: &mut Findings<'_>) {
    went_back(facts.history, findings);
    let mut last = None;
    let mut lists: Vec<&Operation> = facts.history.operations.iter().collect();
    lists.sort_by_key(|operation| operation.begin);
    for list in lists {
        let (Call::List(kind), Outcome::Listed { revision, items }) = (list.call, &list.outcome) else { continue };
        if let ListKind::Exact(wanted) = kind
            && wanted != *revision
        {
            findings.add(Rule::ListNotAState, format!("not at {wanted}"), vec![list.to_string()], None, list.begin);
        }
        let state = State { facts, objects, list, kind, revision: *revision };
        let mut listed: HashMap<Key, &Version> = HashMap::with_capacity(items.len());
        for (key, version) in items {
            if listed.insert(*key, version).is_some() {
                findings.add(Rule::ListNotAState, format!("{key} is in it twice"), vec![list.to_string()], None, 0);
            }
        }
        // The first difference says enough.
        let different =
            facts.of_key.keys().find_map(|key| Some((*key, state.differs(*key, listed.get(key).copied())?)));
        if let Some((key, (what, fact))) = different {
            let mut lines = vec![list.to_string()];
            lines.extend(listed.get(&key).map(|version| format!("its item: {key} {version}")));
            lines.extend(fact.map(|fact| facts.describe(fact)));
            findings.add(Rule::ListNotAState, what, lines, Some(key), list.begin);
        }
        if kind == ListKind::Consistent {
            last = Some((state, listed));
        }
    }
    if let Some((state, listed)) = last {
        state.lost(&listed, findings);
    }
}

/// Checks that lists from the cache of one server are not older than those that ended before they began.
fn went_back(history: &History, findings: &mut Findings<'_>) {
    let cached = |it: &&Operation| it.call == Call::List(ListKind::Cached) && revision_of(it).is_some();
    let mut begun: Vec<&Operation> = history.operations.iter().filter(cached).collect();
    let mut ended = begun.clone();
    begun.sort_by_key(|list| list.begin);
    ended.sort_by_key(|list| list.end);
    let mut ended = ended.into_iter().peekable();
    let mut newest: HashMap<u32, &Operation> = HashMap::new();
    for list in begun {
        while let Some(before) = ended.next_if(|before| before.end <= list.begin) {
            let newest = newest.entry(before.server).or_insert(before);
            if revision_of(before) > revision_of(newest) {
                *newest = before;
            }
        }
        if let Some(before) = newest.get(&list.server).filter(|before| revision_of(before) > revision_of(list)) {
            let what = format!("server {} listed an older state than before", list.server);
            let lines = vec![before.to_string(), list.to_string()];
            findings.add(Rule::ListWentBack, what, lines, None, list.begin);
        }
    }
}

fn revision_of(list: &Operation) -> Option<Revision> {
    match &list.outcome {
        Outcome::Listed { revision, .. } => Some(*revision),
        _ => None,
    }
}

struct State<'c, 'h> {
    facts: &'c Facts<'h>,
    objects: &'c Objects,
    list: &'c Operation,
    kind: ListKind,
    revision: Revision,
}

impl<'c> State<'c, '_> {
    /// Returns how the list differs from the state at its revision, with the fact that shows it.
    fn differs(&self, key: Key, item: Option<&Version>) -> Option<(String, Option<&'c Fact>)> {
        let at = self.revision;
        let last = self.facts.last_of(key, at);
        let Some(item) = item else {
            let fact = last.filter(|fact| matches!(fact.change, Change::Written(_)))?;
            let existed = !self.may_have_been_deleted(key, fact);
            return existed.then(|| (format!("{key} is missing from the list at revision {at}"), Some(fact)));
        };
        if item.revision > at {
            return Some((format!("{key} is at revision {}, after that of the list", item.revision), None));
        }
        if let Some(fact) = last.filter(|fact| fact.revision > item.revision) {
            return Some((format!("{key} is at revision {} in the list at {at}", item.revision), Some(fact)));
        }
        let is_deleted = |deletion: &&&Operation| deletion.end < self.list.begin;
        let deletion = self.facts.deletions(item.uid).iter().find(is_deleted);
        let deletion = deletion.filter(|_| self.kind == ListKind::Consistent)?;
        Some((format!("{key} is in the list after its deletion: {deletion}"), last))
    }

    /// Returns whether an object may have been deleted between a version and the revision of the list.
    fn may_have_been_deleted(&self, key: Key, fact: &Fact) -> bool {
        let incarnations = self.objects.get(&key).map_or(&[][..], Vec::as_slice);
        let Some(incarnation) = incarnations.iter().find(|one| one.uid == fact.uid) else { return true };
        if incarnation.last > self.revision || incarnation.deleted.is_some_and(|deleted| deleted > self.revision) {
            return false;
        }
        incarnation.deletion.is_some_and(|(begin, _)| begin <= self.list.end)
    }

    /// Marks the acknowledged writes that the last list lacks.
    fn lost(&self, listed: &HashMap<Key, &Version>, findings: &mut Findings<'_>) {
        for fact in &self.facts.all {
            let Some(writer) = self.facts.writer(fact) else { continue };
            if !writer.is_acknowledged_write() || writer.end >= self.list.begin {
                continue;
            }
            let is_lost = match listed.get(&fact.key) {
                Some(item) => item.revision < fact.revision,
                None => fact.revision > self.revision || !self.may_have_been_deleted(fact.key, fact),
            };
            if is_lost {
                findings.verdict.lost.insert(writer.id);
            }
        }
    }
}
