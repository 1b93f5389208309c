//! Figures of a run, by fault.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use windlass_bench::table::{render, thousands};

use super::{
    super::{
        checker::Verdict,
        history::{History, Micros, Outcome},
    },
    fault::Fault,
};

/// The time of a fault.
#[derive(Debug)]
pub(super) struct Interval {
    pub(super) fault: Fault,
    pub(super) begin: Micros,
    /// Time at which it had ended.
    pub(super) healed: Micros,
    /// Time at which everything worked again.
    pub(super) end: Micros,
    pub(super) note: Option<String>,
}

/// Figures of all injections of a fault.
#[derive(Debug, Default)]
struct Figures {
    times: u64,
    skipped: u64,
    /// Longest time without a successful write.
    pause: Duration,
    /// Longest time without a successful write of one client.
    pause_of_client: Duration,
    /// Requests without a response, or with an error of a server.
    failed: u64,
    /// Longest time from the end of the fault until everything worked.
    recovery: Duration,
    violations: u64,
    lost: u64,
    notes: Vec<String>,
}

/// Sums over all rounds.
#[derive(Debug, Default)]
pub(super) struct Totals {
    faults: BTreeMap<Fault, Figures>,
    operations: u64,
    rejected: BTreeMap<u16, u64>,
    acknowledged: u64,
    unknown: u64,
    took_effect: u64,
    watches: u64,
    events: u64,
    pub(super) violations: u64,
    pub(super) lost: u64,
}

impl Totals {
    /// Adds a checked history.
    pub(super) fn add(&mut self, history: &History, clients: u32, intervals: &[Interval], verdict: &Verdict) {
        let mut all: Vec<Micros> = Vec::new();
        let mut of_client: Vec<Vec<Micros>> = (0..clients).map(|_| Vec::new()).collect();
        for operation in &history.operations {
            if operation.is_acknowledged_write() {
                all.push(operation.end);
                // The others only read during the faults.
                let times = usize::try_from(operation.client).ok().and_then(|client| of_client.get_mut(client));
                times.into_iter().for_each(|times| times.push(operation.end));
            }
            if let Outcome::Rejected(code) = operation.outcome {
                *self.rejected.entry(code).or_default() += 1;
            }
        }
        all.sort_unstable();
        for (number, interval) in intervals.iter().enumerate() {
            let figures = self.faults.entry(interval.fault).or_default();
            figures.notes.extend(interval.note.clone());
            if interval.end == interval.begin {
                figures.skipped += 1;
                continue;
            }
            figures.times += 1;
            figures.pause = figures.pause.max(longest_pause(&all, interval));
            let of_clients = of_client.iter().map(|times| longest_pause(times, interval));
            figures.pause_of_client = of_clients.max().unwrap_or_default().max(figures.pause_of_client);
            figures.recovery =
                figures.recovery.max(Duration::from_micros(interval.end.saturating_sub(interval.healed)));
            // A violation may show itself until the next fault begins.
            let next = intervals.get(number + 1).map_or(Micros::MAX, |next| next.begin);
            let within = |at: Micros| (interval.begin..next).contains(&at);
            let failed = history.operations.iter().filter(|it| it.outcome == Outcome::Unknown && within(it.begin));
            figures.failed += failed.count() as u64;
            figures.violations += verdict.violations.iter().filter(|violation| within(violation.at)).count() as u64;
            let lost = history.operations.iter().filter(|it| verdict.lost.contains(&it.id) && within(it.end));
            figures.lost += lost.count() as u64;
        }
        self.operations += history.operations.len() as u64;
        self.acknowledged += all.len() as u64;
        let unknown = history.operations.iter().filter(|it| it.call.is_write() && it.outcome == Outcome::Unknown);
        self.unknown += unknown.count() as u64;
        self.took_effect += verdict.took_effect as u64;
        self.watches += history.watches.len() as u64;
        self.events += history.watches.iter().map(|watch| watch.events.len() as u64).sum::<u64>();
        self.violations += verdict.violations.len() as u64;
        self.lost += verdict.lost.len() as u64;
    }

    /// Returns the longest time without a successful write during any fault.
    pub(super) fn longest_pause(&self) -> Duration {
        self.faults.values().map(|figures| figures.pause).max().unwrap_or_default()
    }

    pub(super) fn table(&self) -> String {
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let head = [
            "fault",
            "times",
            "longest without a write",
            "of one client",
            "failed requests",
            "all ready again after",
            "violations",
            "lost writes",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.faults.iter().map(|(fault, figures)| {
            let mut row = vec![fault.name().to_owned(), figures.times.to_string()];
            if figures.times == 0 {
                row.extend(std::iter::repeat_n("skipped".to_owned(), head.len() - 2));
                return row;
            }
            row.extend([figures.pause, figures.pause_of_client].map(seconds));
            row.extend([thousands(figures.failed), seconds(figures.recovery)]);
            row.extend([figures.violations, figures.lost].map(thousands));
            row
        }));
        let notes = self.faults.iter().flat_map(|(fault, figures)| {
            let mut notes = figures.notes.clone();
            notes.sort_unstable();
            notes.dedup();
            notes.into_iter().map(|note| format!("{}: {note}\n", fault.name()))
        });
        format!("{}\n{}", render(&rows), notes.collect::<String>())
    }

    /// Returns the sums in a line.
    pub(super) fn summary(&self) -> String {
        let rejected: String =
            self.rejected.iter().map(|(code, count)| format!(", {count} rejected with {code}")).collect();
        format!(
            "{} operations{rejected}, {} acknowledged writes, {} of unknown outcome ({} known to have taken effect), {} \
             watches with {} events: {} violations, {} acknowledged writes lost",
            thousands(self.operations),
            thousands(self.acknowledged),
            thousands(self.unknown),
            thousands(self.took_effect),
            thousands(self.watches),
            thousands(self.events),
            self.violations,
            self.lost
        )
    }

    pub(super) fn to_json(&self) -> Value {
        let faults = self.faults.iter().map(|(fault, figures)| {
            json!({
                "fault": fault.name(), "times": figures.times, "skipped": figures.skipped,
                "longestSecondsWithoutWrite": figures.pause.as_secs_f64(),
                "longestSecondsWithoutWriteOfOneClient": figures.pause_of_client.as_secs_f64(),
                "failedRequests": figures.failed, "secondsToReady": figures.recovery.as_secs_f64(),
                "violations": figures.violations, "lostWrites": figures.lost, "notes": figures.notes,
            })
        });
        json!({
            "faults": faults.collect::<Vec<_>>(), "operations": self.operations, "rejectedByStatus": self.rejected,
            "acknowledgedWrites": self.acknowledged, "unknownWrites": self.unknown,
            "unknownThatTookEffect": self.took_effect, "watches": self.watches, "watchEvents": self.events,
            "violations": self.violations, "lostWrites": self.lost,
        })
    }
}

/// Returns the longest time between two successive writes that has a part in an interval.
fn longest_pause(times: &[Micros], interval: &Interval) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let overlaps = |pair: &&[Micros]| pair[1] > interval.begin && pair[0] < interval.end;
    let longest = sorted.windows(2).filter(overlaps).map(|pair| pair[1] - pair[0]).max();
    Duration::from_micros(longest.unwrap_or(Micros::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_counted_as_a_whole_if_a_part_of_it_is_in_the_fault() {
        let interval = Interval { fault: Fault::Cut, begin: 100, healed: 150, end: 200, note: None };
        let pause = |times: &[Micros]| longest_pause(times, &interval).as_micros();
        assert_eq!(pause(&[0, 90, 130, 190, 260, 900]), 70);
        assert_eq!(pause(&[0, 90, 400, 900]), 310, "nothing succeeds during the fault");
        assert_eq!(pause(&[0, 100, 200, 900]), 100, "the limits");
        assert_eq!(pause(&[0, 50]), u128::from(Micros::MAX), "nothing succeeds any more");
    }
}
