//! Checks a recorded history: pure, and linear in its length apart from sorting.
//!
//! Every write has its own revision, and revisions are the order of all writes. Together with the numbers that writes
//! leave in the objects, this makes linearizability cheap to decide: the order is known from everything that was
//! observed, and what remains is whether each operation fits between its beginning and its end. The checks:
//!
//! - `facts`: a revision belongs to one write, and a write has one revision; nothing appears that was not written.
//! - `objects`: each version follows from the one before it; updates and deletions with a precondition replace exactly
//!   the version they name; objects are deleted only by deletions.
//! - `order`: an operation that ended before another began is before it in the order of revisions.
//! - `reads`: gets return the newest version; 404, 409 and conflicts have a cause.
//! - `lists`: a list is exactly the state at its revision, and a consistent one is not older than earlier responses.
//! - `watches`: a watch delivers each write after its start once and in order.
//!
//! Several servers over one store are checked as one: requests that name no resource version must be linearizable across
//! all of them. Only lists from a cache (`resourceVersion=0`) may be older on one server than on another, but those of one
//! server do not go back. Revisions have gaps, because others write to the store as well.
//!
//! A write of unknown outcome may have taken effect at any time after it began, or never. It counts as a possible cause
//! of everything that it explains, so an unknown outcome is never reported. An absence (404) is checked on its own
//! against all times at which the object may have been absent, not in combination with other absences.

mod facts;
mod lists;
mod objects;
mod order;
mod reads;
#[cfg(test)]
mod tests;
mod watches;

use std::{collections::BTreeSet, fmt};

use self::facts::Facts;
use super::history::{History, Key, Micros, OpId};

/// Number of violations that are described with an excerpt of the history; the rest are counted.
const DESCRIBED: usize = 10;
/// Number of operations of an excerpt before and after the violation.
const AROUND: usize = 6;

/// A promise that a history can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    RevisionReused,
    WriteTwice,
    Phantom,
    LostUpdate,
    UnexplainedChange,
    RevisionOrder,
    StaleRead,
    UnexplainedRejection,
    ListNotAState,
    ListWentBack,
    WatchLostEvent,
    WatchOrder,
    WatchEventType,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RevisionReused => "a revision was used twice",
            Self::WriteTwice => "a write took effect twice",
            Self::Phantom => "something appeared that was not written",
            Self::LostUpdate => "a write was lost or overwritten",
            Self::UnexplainedChange => "an object changed without a request",
            Self::RevisionOrder => "revisions contradict the order of requests",
            Self::StaleRead => "a read returned an old state",
            Self::UnexplainedRejection => "a request was rejected without a cause",
            Self::ListNotAState => "a list is not the state at its revision",
            Self::ListWentBack => "lists of one server went back",
            Self::WatchLostEvent => "a watch lost an event",
            Self::WatchOrder => "a watch repeated or reordered events",
            Self::WatchEventType => "a watch event has the wrong type",
        })
    }
}

/// A broken promise with the part of the history that shows it.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) what: String,
    /// Time of the part of the history that shows it.
    pub(crate) at: Micros,
    pub(crate) excerpt: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)?;
        self.excerpt.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// The result of a check.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) violations: Vec<Violation>,
    /// Acknowledged writes that a later response contradicts for good.
    pub(crate) lost: BTreeSet<OpId>,
    /// Writes of unknown outcome that are known to have taken effect.
    pub(crate) took_effect: usize,
}

/// Checks a history.
pub(crate) fn check(history: &History) -> Verdict {
    let mut findings = Findings { history, verdict: Verdict::default() };
    let facts = Facts::gather(history, &mut findings);
    let bounds = order::check(&facts, &mut findings);
    let objects = objects::check(&facts, &mut findings);
    reads::check(&facts, &bounds, &objects, &mut findings);
    lists::check(&facts, &objects, &mut findings);
    watches::check(&facts, &mut findings);
    findings.verdict.took_effect = facts.unknown_that_took_effect();
    findings.verdict
}

/// Collects violations.
struct Findings<'h> {
    history: &'h History,
    verdict: Verdict,
}

impl Findings<'_> {
    /// Adds a violation; the lines show it, and the operations on the key around that time are added to them.
    fn add(&mut self, rule: Rule, what: String, lines: Vec<String>, key: Option<Key>, at: Micros) {
        let mut excerpt = lines;
        if self.verdict.violations.len() < DESCRIBED {
            excerpt.extend(self.around(key, at));
        }
        self.verdict.violations.push(Violation { rule, what, at, excerpt });
    }

    fn around(&self, key: Option<Key>, at: Micros) -> Vec<String> {
        let Some(key) = key else { return Vec::new() };
        let concerned = |call: super::history::Call| call.key() == Some(key) && call.is_write();
        let mut operations: Vec<_> = self.history.operations.iter().filter(|it| concerned(it.call)).collect();
        operations.sort_by_key(|operation| operation.begin);
        let middle = operations.partition_point(|operation| operation.begin <= at);
        let range = middle.saturating_sub(AROUND)..(middle + AROUND).min(operations.len());
        let shown = &operations[range];
        let mut lines = vec![format!("writes of {key} around that time:")];
        let mut last = None;
        for operation in shown {
            let between = |at: Micros| last.is_some_and(|last| at > last) && at <= operation.begin;
            let faults = self.history.faults.iter().filter(|fault| between(fault.at));
            lines.extend(faults.map(|fault| format!("  {:.6} s  {}", fault.at as f64 / 1e6, fault.what)));
            lines.push(format!("  {operation}"));
            last = Some(operation.begin);
        }
        lines
    }
}
