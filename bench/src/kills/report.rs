//! Figures of a run.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use windlass_bench::table::{render, thousands};

use super::{
    Recorded,
    checker::Verdict,
    history::{Call, History, ListKind, Outcome},
};

/// Sums over all histories.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) elapsed: Duration,
    histories: u64,
    replayed_in_full: u64,
    kills: u64,
    during_start: u64,
    operations: BTreeMap<&'static str, u64>,
    rejected: BTreeMap<u16, u64>,
    acknowledged: u64,
    unknown: u64,
    took_effect: u64,
    watches: u64,
    resumed: u64,
    expired: u64,
    events: u64,
    starts: Vec<Duration>,
    pub(super) lost: u64,
    pub(super) violations: u64,
}

impl Totals {
    /// Adds a checked history.
    pub(super) fn add(&mut self, history: &History, recorded: &Recorded, verdict: &Verdict) {
        self.histories += 1;
        self.replayed_in_full += u64::from(recorded.recording.replayed_in_full);
        self.kills += history.faults.len() as u64;
        self.during_start += recorded.victim.during_start;
        for operation in &history.operations {
            *self.operations.entry(name(operation.call)).or_default() += 1;
            self.acknowledged += u64::from(operation.is_acknowledged_write());
            self.unknown += u64::from(operation.call.is_write() && operation.outcome == Outcome::Unknown);
            if let Outcome::Rejected(code) = operation.outcome {
                *self.rejected.entry(code).or_default() += 1;
            }
        }
        self.took_effect += verdict.took_effect as u64;
        self.watches += history.watches.len() as u64;
        self.resumed += recorded.recording.resumed;
        self.expired += recorded.recording.expired;
        self.events += history.watches.iter().map(|watch| watch.events.len() as u64).sum::<u64>();
        self.starts.extend(&recorded.victim.starts);
        self.lost += verdict.lost.len() as u64;
        self.violations += verdict.violations.len() as u64;
    }

    /// Returns a time to be ready that the given share of the restarts did not exceed.
    fn ready_in(&self, share: f64) -> Duration {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        let rank = (starts.len() as f64 * share).ceil() as usize;
        starts.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(super) fn table(&self) -> String {
        let millis = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
        let mut rows = vec![
            ("", String::new()),
            ("time", format!("{:.0} s", self.elapsed.as_secs_f64())),
            ("kills", thousands(self.kills)),
            ("of them before the server was ready", thousands(self.during_start)),
            ("restart to ready, median", millis(self.ready_in(0.5))),
            ("restart to ready, slowest", millis(self.ready_in(1.0))),
            ("histories checked", thousands(self.histories)),
            ("of them watched again from the beginning", thousands(self.replayed_in_full)),
            ("operations", thousands(self.operations.values().sum())),
            ("acknowledged writes", thousands(self.acknowledged)),
            ("writes of unknown outcome", thousands(self.unknown)),
            ("of them known to have taken effect", thousands(self.took_effect)),
            ("watches", thousands(self.watches)),
            ("of them resumed after the last event", thousands(self.resumed)),
            ("of them expired (410)", thousands(self.expired)),
            ("watch events", thousands(self.events)),
            ("acknowledged writes lost", thousands(self.lost)),
            ("violations", thousands(self.violations)),
        ];
        if !self.rejected.is_empty() {
            let rejected: Vec<String> = self.rejected.iter().map(|(code, count)| format!("{code}: {count}")).collect();
            rows.insert(9, ("other errors by status", rejected.join(", ")));
        }
        render(&rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect::<Vec<_>>())
    }

    /// Returns the operations by type in a line.
    pub(super) fn by_type(&self) -> String {
        let counts = self.operations.iter().map(|(name, count)| format!("{name} {}", thousands(*count)));
        counts.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "seconds": self.elapsed.as_secs_f64(), "kills": self.kills, "killsDuringStart": self.during_start,
            "histories": self.histories, "historiesReplayed": self.replayed_in_full,
            "operations": self.operations, "rejectedByStatus": self.rejected,
            "acknowledgedWrites": self.acknowledged, "unknownWrites": self.unknown,
            "unknownThatTookEffect": self.took_effect, "watches": self.watches, "watchesResumed": self.resumed,
            "watchesExpired": self.expired, "watchEvents": self.events, "lostWrites": self.lost,
            "violations": self.violations, "medianSecondsToReady": self.ready_in(0.5).as_secs_f64(),
            "slowestSecondsToReady": self.ready_in(1.0).as_secs_f64(),
        })
    }
}

/// Summarizes a history in a line.
pub(super) fn line(faults: usize, called: &str, history: &History, verdict: &Verdict) -> String {
    format!(
        "{faults} {called}, {} operations, {} watches, {} acknowledged writes lost, {} violations",
        thousands(history.operations.len() as u64),
        history.watches.len(),
        verdict.lost.len(),
        verdict.violations.len()
    )
}

fn name(call: Call) -> &'static str {
    match call {
        Call::Create(_) => "create",
        Call::Put(..) => "update",
        Call::Patch(_) => "patch",
        Call::Delete(..) => "delete",
        Call::Get(_) => "get",
        Call::List(ListKind::Consistent) => "list",
        Call::List(ListKind::Cached) => "list from cache",
        Call::List(ListKind::Exact(_)) => "list at revision",
    }
}
