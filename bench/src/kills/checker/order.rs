//! The order of revisions and the order of requests: an operation that ended before another began comes before it.

use super::{
    super::history::{Call, ListKind, Micros, Operation, Outcome, Revision},
    Findings, Rule,
    facts::{Change, Fact, Facts},
};

/// Maximum number of operations out of order that are reported.
const MAX_REPORTED: usize = 100;

/// Item that is ordered by revision.
struct Point<'f> {
    /// Its place: writes come before lists of the same revision.
    place: (Revision, bool),
    /// It cannot have happened before.
    lower: Micros,
    /// It had certainly happened then.
    upper: Micros,
    what: What<'f>,
}

#[derive(Clone, Copy)]
enum What<'f> {
    Fact(&'f Fact),
    List(&'f Operation),
}

/// The times at which each revision can have been written, given all other revisions.
pub(super) struct Bounds {
    places: Vec<(Revision, bool)>,
    earliest: Vec<Micros>,
    latest: Vec<Micros>,
}

impl Bounds {
    /// Returns the time before which the write of a revision cannot have happened.
    pub(super) fn earliest(&self, revision: Revision) -> Micros {
        let after = self.places.partition_point(|place| *place <= (revision, false));
        after.checked_sub(1).map_or(0, |index| self.earliest[index])
    }

    /// Returns the time by which the write of a revision has certainly happened.
    pub(super) fn latest(&self, revision: Revision) -> Micros {
        let from = self.places.partition_point(|place| *place < (revision, false));
        self.latest.get(from).copied().unwrap_or(Micros::MAX)
    }
}

/// Checks that the revisions of all writes and lists agree with their times.
pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings<'_>) -> Bounds {
    let mut points = points(facts);
    points.sort_by_key(|point| point.place);
    // One operation out of order contradicts many others: it is reported once and left out of all further checks.
    let mut reported = 0;
    while let Some((earlier, later)) = contradiction(&points) {
        report(facts, &points[earlier], &points[later], findings);
        points.remove(earlier);
        reported += 1;
        if reported == MAX_REPORTED {
            break;
        }
    }
    let mut earliest = Vec::with_capacity(points.len());
    for point in &points {
        earliest.push(point.lower.max(earliest.last().copied().unwrap_or(0)));
    }
    let mut latest = vec![Micros::MAX; points.len()];
    let mut limit = Micros::MAX;
    for (point, latest) in points.iter().zip(&mut latest).rev() {
        limit = limit.min(point.upper);
        *latest = limit;
    }
    Bounds { places: points.iter().map(|point| point.place).collect(), earliest, latest }
}

/// Returns the first point that had happened before another one, earlier in the order, began; that one comes first.
fn contradiction(points: &[Point<'_>]) -> Option<(usize, usize)> {
    let mut last_begun: Option<usize> = None;
    let mut index = 0;
    while index < points.len() {
        let size = points[index..].iter().take_while(|point| point.place == points[index].place).count();
        let group = index..index + size;
        if let Some(begun) = last_begun {
            let later = group.clone().find(|later| points[begun].lower > points[*later].upper);
            if let Some(later) = later {
                return Some((begun, later));
            }
        }
        last_begun = last_begun.into_iter().chain(group).max_by_key(|index| points[*index].lower);
        index += size;
    }
    None
}

fn points<'f>(facts: &'f Facts<'_>) -> Vec<Point<'f>> {
    let of_fact = |fact: &'f Fact| {
        let (lower, upper) = match (fact.change, facts.writer(fact)) {
            (Change::Deleted(_), _) => {
                let last = facts.last_of(fact.key, fact.revision - 1).map_or(0, |it| it.revision);
                let deletions = facts.may_have_deleted(fact.key, fact.uid, last);
                let lower = deletions.iter().map(|operation| operation.begin).min().unwrap_or(0);
                (lower, deletions.iter().map(|operation| operation.done_by()).max().unwrap_or(Micros::MAX))
            }
            (_, Some(writer)) => (writer.begin, writer.done_by()),
            (_, None) => (0, Micros::MAX),
        };
        Point { place: (fact.revision, false), lower, upper: upper.min(fact.seen), what: What::Fact(fact) }
    };
    let of_list = |operation: &'f Operation| match (operation.call, &operation.outcome) {
        (Call::List(kind), Outcome::Listed { revision, .. }) => {
            let lower = if kind == ListKind::Consistent { operation.begin } else { 0 };
            Some(Point { place: (*revision, true), lower, upper: operation.end, what: What::List(operation) })
        }
        _ => None,
    };
    facts.all.iter().map(of_fact).chain(facts.history.operations.iter().filter_map(of_list)).collect()
}

fn report(facts: &Facts<'_>, earlier: &Point<'_>, later: &Point<'_>, findings: &mut Findings<'_>) {
    let line = |point: &Point<'_>| match point.what {
        What::Fact(fact) => {
            let writer = facts.writer(fact).map(|operation| format!(", written in {operation}")).unwrap_or_default();
            facts.describe(fact) + &writer
        }
        What::List(operation) => operation.to_string(),
    };
    let key = [earlier, later].into_iter().find_map(|point| match point.what {
        What::Fact(fact) => Some(fact.key),
        What::List(_) => None,
    });
    let stale = matches!(earlier.what, What::List(_));
    let rule = if stale { Rule::StaleRead } else { Rule::RevisionOrder };
    let what = match stale {
        true => format!("a list at revision {} began after revision {} existed", earlier.place.0, later.place.0),
        false => format!("revision {} began after revision {} existed", earlier.place.0, later.place.0),
    };
    findings.add(rule, what, vec![line(later), line(earlier)], key, later.upper);
}
