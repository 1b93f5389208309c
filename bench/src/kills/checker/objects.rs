//! The versions of each object: each must follow from the one before it by the request that wrote it.

use std::collections::{BTreeMap, HashSet};

use super::{
    super::history::{Call, Content, Key, Micros, Operation, Outcome, Revision},
    Findings, Rule,
    facts::{Change, Fact, Facts},
};

/// An object from its creation to its deletion, identified by its UID.
pub(super) struct Incarnation {
    pub(super) uid: u128,
    /// The first revision that was observed; that of the creation unless its outcome is unknown.
    pub(super) first: Revision,
    /// Time at which it was requested, at the earliest.
    pub(super) requested: Micros,
    /// The last version that was observed.
    pub(super) last: Revision,
    last_content: Content,
    /// The revision of its deletion, if that was observed.
    pub(super) deleted: Option<Revision>,
    /// The time in which it may have been deleted; `None` if no request can have deleted it.
    pub(super) deletion: Option<(Micros, Micros)>,
}

/// The incarnations of each object, in order.
pub(super) type Objects = BTreeMap<Key, Vec<Incarnation>>;

/// Checks the versions of all objects.
pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings<'_>) -> Objects {
    let mut objects = Objects::new();
    for (key, indexes) in &facts.of_key {
        let chain = indexes.iter().map(|index| &facts.all[*index]);
        let mut incarnations = incarnations(facts, chain, findings);
        explain_deletions(facts, *key, &mut incarnations, findings);
        objects.insert(*key, incarnations);
    }
    for operation in &facts.history.operations {
        if let (Some(key), Outcome::Deleted(uid)) = (operation.call.key(), &operation.outcome) {
            let known = objects.get(&key).is_some_and(|all| all.iter().any(|one| one.uid == *uid));
            let created = |other: &Operation| matches!(other.call, Call::Create(_)) && other.begin <= operation.end;
            if !known && !facts.open(key).any(created) {
                let what = format!("{key} was deleted, but no such object was created");
                findings.add(Rule::Phantom, what, vec![operation.to_string()], Some(key), operation.end);
            }
        }
    }
    objects
}

fn incarnations<'f>(
    facts: &Facts<'_>,
    chain: impl Iterator<Item = &'f Fact>,
    findings: &mut Findings<'_>,
) -> Vec<Incarnation> {
    let mut incarnations: Vec<Incarnation> = Vec::new();
    let mut uids = HashSet::new();
    for fact in chain {
        let mut report = |rule: Rule, what: String| {
            findings.add(rule, what, vec![facts.describe(fact)], Some(fact.key), fact.seen);
        };
        match incarnations.last_mut().filter(|last| last.uid == fact.uid) {
            Some(current) if current.deleted.is_some() => {
                report(Rule::LostUpdate, format!("{} exists after its deletion", fact.key));
            }
            Some(current) => {
                if let Err(what) = follows(facts, current, fact) {
                    report(Rule::LostUpdate, what);
                }
                match fact.change {
                    Change::Written(content) => (current.last, current.last_content) = (fact.revision, content),
                    Change::Deleted(_) => current.deleted = Some(fact.revision),
                }
            }
            None => {
                if !uids.insert(fact.uid) {
                    report(Rule::LostUpdate, format!("{} returned after another object with its name", fact.key));
                }
                let (incarnation, explained) = first(facts, fact);
                if !explained {
                    report(Rule::Phantom, format!("{} does not begin with its creation", fact.key));
                }
                incarnations.push(incarnation);
            }
        }
    }
    incarnations
}

/// Begins an incarnation: with its creation, or with a later version if the outcome of the creation is unknown. Returns
/// whether that is the case.
fn first(facts: &Facts<'_>, fact: &Fact) -> (Incarnation, bool) {
    let (content, deleted) = match fact.change {
        Change::Written(content) => (content, None),
        Change::Deleted(content) => (content, Some(fact.revision)),
    };
    let creation = facts.operation(content.created).filter(|it| it.call == Call::Create(fact.key));
    let incarnation = Incarnation {
        uid: fact.uid,
        first: fact.revision,
        requested: creation.map_or(0, |operation| operation.begin),
        last: fact.revision,
        last_content: content,
        deleted,
        deletion: None,
    };
    let is_creation = content.last == content.created && deleted.is_none();
    let explained = match is_creation {
        true => creation.is_some() && content.put == content.created && content.patch.0 == 0,
        false => facts.is_open(content.created),
    };
    (incarnation, explained)
}

/// Checks that a version or deletion follows from the last version known. Writes that were never observed may be
/// between them.
fn follows(facts: &Facts<'_>, before: &Incarnation, fact: &Fact) -> Result<(), String> {
    let key = fact.key;
    let old = before.last_content;
    let content = match fact.change {
        Change::Deleted(content) if content == old || facts.is_open(content.last) => return Ok(()),
        Change::Deleted(_) => return Err(format!("{key} was deleted in another state than revision {}", before.last)),
        Change::Written(content) => content,
    };
    if content.created != old.created {
        return Err(format!("{key} has another creator than revision {}", before.last));
    }
    match facts.operation(content.last).map(|writer| writer.call) {
        Some(Call::Put(_, expected)) if expected != before.last => {
            Err(format!("{key} was updated at revision {expected}, but was at {}", before.last))
        }
        Some(Call::Put(..)) if content.put != content.last || content.patch != old.patch => {
            Err(format!("the update of {key} did not store what it sent"))
        }
        Some(Call::Patch(_)) if content.patch != content.last => {
            Err(format!("the patch of {key} did not store what it sent"))
        }
        Some(Call::Patch(_)) if content.put != old.put && !facts.is_open(content.put) => {
            Err(format!("the patch of {key} was not applied to revision {}", before.last))
        }
        Some(Call::Put(..) | Call::Patch(_)) => Ok(()),
        _ => Err(format!("{key} was created although it existed at revision {}", before.last)),
    }
}

/// Finds the deletion of each incarnation; all except for the last must have one.
fn explain_deletions(facts: &Facts<'_>, key: Key, incarnations: &mut [Incarnation], findings: &mut Findings<'_>) {
    let count = incarnations.len();
    for (number, incarnation) in incarnations.iter_mut().enumerate() {
        let candidates = facts.may_have_deleted(key, incarnation.uid, incarnation.last);
        let begin = candidates.iter().map(|operation| operation.begin).min();
        let end = candidates.iter().map(|operation| operation.done_by()).max();
        incarnation.deletion = begin.zip(end);
        let mut report = |rule: Rule, what: String, more: &[&Operation]| {
            let fact = facts.last_of(key, incarnation.deleted.unwrap_or(incarnation.last));
            let mut lines: Vec<String> = fact.map(|fact| facts.describe(fact)).into_iter().collect();
            lines.extend(more.iter().map(|operation| operation.to_string()));
            findings.add(rule, what, lines, Some(key), fact.map_or(0, |fact| fact.seen));
        };
        let acknowledged = facts.deletions(incarnation.uid);
        if acknowledged.len() > 1 {
            report(Rule::WriteTwice, format!("{key} was deleted twice"), acknowledged);
        }
        for operation in acknowledged {
            if let Call::Delete(_, Some(expected)) = operation.call
                && expected < incarnation.last
            {
                let what = format!("{key} was deleted at revision {expected}, but was at {}", incarnation.last);
                report(Rule::LostUpdate, what, &[operation]);
            }
        }
        let is_deleted = incarnation.deleted.is_some() || number + 1 < count;
        if is_deleted && candidates.is_empty() {
            report(Rule::UnexplainedChange, format!("{key} disappeared without a deletion"), &[]);
        }
    }
}
