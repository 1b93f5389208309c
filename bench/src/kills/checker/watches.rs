//! Watches: every write after the start once, in order, with the right type.

use std::collections::HashMap;

use super::{
    super::history::{Call, EventKind, Key, Revision, WatchEvent, WatchStream},
    Findings, Rule,
    facts::{Change, Fact, Facts},
};

/// Checks all watches.
pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings<'_>) {
    for stream in &facts.history.watches {
        order(stream, findings);
        completeness(facts, stream, findings);
        types(facts, stream, findings);
    }
}

fn order(stream: &WatchStream, findings: &mut Findings<'_>) {
    let mut newest = stream.after;
    for event in &stream.events {
        let revision = event.version.revision;
        if revision <= newest {
            let what = format!("{}: revision {revision} after {newest}", name(stream));
            findings.add(Rule::WatchOrder, what, vec![event.to_string()], Some(event.key), event.at);
        }
        newest = newest.max(revision);
    }
}

/// Checks that everything known between the start and the last event was delivered.
fn completeness(facts: &Facts<'_>, stream: &WatchStream, findings: &mut Findings<'_>) {
    let delivered: HashMap<Revision, &WatchEvent> =
        stream.events.iter().map(|event| (event.version.revision, event)).collect();
    let Some(to) = delivered.keys().copied().chain(stream.complete_to).max() else { return };
    let from = facts.all.partition_point(|fact| fact.revision <= stream.after);
    let expected = facts.all[from..].iter().take_while(|fact| fact.revision <= to);
    let missing: Vec<&Fact> = expected.filter(|fact| !delivered.contains_key(&fact.revision)).collect();
    let Some(first) = missing.first() else { return };
    let what = format!("{}: revision {}, {} missing in all", name(stream), first.revision, missing.len());
    let mut lines = vec![facts.describe(first)];
    let after = stream.events.iter().position(|event| event.version.revision > first.revision);
    let before = after.unwrap_or(stream.events.len()).checked_sub(1);
    let neighbours = [before, after].into_iter().flatten();
    lines.extend(neighbours.map(|index| format!("{}: {}", name(stream), stream.events[index])));
    findings.add(Rule::WatchLostEvent, what, lines, Some(first.key), first.seen);
}

/// Checks types, and that no deletion is missing: its revision may be known from nowhere else.
fn types(facts: &Facts<'_>, stream: &WatchStream, findings: &mut Findings<'_>) {
    let mut newest: HashMap<Key, &WatchEvent> = HashMap::new();
    for event in &stream.events {
        let before = newest.insert(event.key, event);
        let existed = before.map(|before| before.kind != EventKind::Deleted);
        let creates = facts.operation(event.version.content.last).map(|it| matches!(it.call, Call::Create(_)));
        let broken = match (event.kind, existed) {
            (EventKind::Added, Some(true)) => Some(Rule::WatchLostEvent),
            (EventKind::Modified | EventKind::Deleted, Some(false)) => Some(Rule::WatchLostEvent),
            (EventKind::Added, _) if creates == Some(false) => Some(Rule::WatchEventType),
            (EventKind::Modified, _) if creates == Some(true) => Some(Rule::WatchEventType),
            _ => None,
        };
        if let Some(rule) = broken {
            let what = format!("{}: revision {} of {}", name(stream), event.version.revision, event.key);
            let lines = before.into_iter().chain([event]).map(|event| format!("{}: {event}", name(stream))).collect();
            findings.add(rule, what, lines, Some(event.key), event.at);
        }
    }
    let Some(to) = stream.complete_to else { return };
    // The write at this revision began after all earlier writes had ended.
    let written = |fact: &&Fact| fact.revision == to && matches!(fact.change, Change::Written(_));
    let mark = facts.all.iter().find(written).and_then(|fact| facts.writer(fact));
    for event in newest.into_values().filter(|event| event.kind != EventKind::Deleted) {
        let ended = facts.deletions(event.version.uid).iter().find(|it| mark.is_some_and(|mark| it.end < mark.begin));
        if let Some(deletion) = ended {
            let what = format!("{}: the deletion of {}", name(stream), event.key);
            let lines = vec![deletion.to_string(), format!("{}: {event}", name(stream))];
            findings.add(Rule::WatchLostEvent, what, lines, Some(event.key), deletion.end);
        }
    }
}

fn name(stream: &WatchStream) -> String {
    format!("watcher {} from revision {} at {:.6} s", stream.watcher, stream.after, stream.begin as f64 / 1e6)
}
