//! The numbers side by side, with the targets.

use std::collections::BTreeMap;

use windlass_bench::table::render;

use crate::{
    contender::Contender,
    subject::{Latencies, Queued, Reconciled, Synced},
};

/// A measure. Less is better, except for rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Measure {
    SyncTime,
    PeakMemory,
    MemoryPerObject,
    Reconciles,
    /// From sending a write, by writes per second.
    WriteMedian(u32),
    WriteTail(u32),
    /// From reading its event, by writes per second.
    EventMedian(u32),
    EventTail(u32),
    /// By number of keys.
    Queue(usize),
}

/// All numbers of all runs.
#[derive(Debug, Default)]
pub(crate) struct Figures(BTreeMap<(Measure, Contender), Vec<f64>>);

impl Figures {
    pub(crate) fn synced(&mut self, contender: Contender, synced: Synced) {
        self.add(Measure::SyncTime, contender, synced.seconds);
        self.add(Measure::PeakMemory, contender, synced.peak as f64);
        let kept = synced.after.saturating_sub(synced.before) as f64 / synced.objects.max(1) as f64;
        self.add(Measure::MemoryPerObject, contender, kept);
    }

    pub(crate) fn reconciled(&mut self, contender: Contender, reconciled: Reconciled) {
        self.add(Measure::Reconciles, contender, reconciled.reconciles as f64 / reconciled.seconds);
    }

    pub(crate) fn latencies(&mut self, contender: Contender, rate: u32, latencies: Latencies) {
        let (writes, events) = (latencies.writes, latencies.events);
        eprintln!("  {} writes seen, {} as events", writes.len(), events.len());
        for (mut micros, median, tail) in [
            (writes, Measure::WriteMedian(rate), Measure::WriteTail(rate)),
            (events, Measure::EventMedian(rate), Measure::EventTail(rate)),
        ] {
            micros.sort_unstable();
            let at = |share: f64| micros.get((micros.len() as f64 * share) as usize).map(|micros| *micros as f64);
            // Without a runtime there are no events.
            if let (Some(middle), Some(high)) = (at(0.5), at(0.99)) {
                self.add(median, contender, middle);
                self.add(tail, contender, high);
            }
        }
    }

    pub(crate) fn queued(&mut self, contender: Contender, queued: Queued) {
        self.add(Measure::Queue(queued.keys), contender, queued.keys as f64 / queued.seconds);
    }

    fn add(&mut self, measure: Measure, contender: Contender, value: f64) {
        eprintln!("  {:<28} {}", measure.title(), measure.show(value));
        self.0.entry((measure, contender)).or_default().push(value);
    }

    /// Prints the table as it appears in the README.
    pub(crate) fn print(&self, contenders: &[Contender]) {
        let median = |measure, contender| {
            let mut values = self.0.get(&(measure, contender))?.clone();
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        let mut measures: Vec<Measure> = self.0.keys().map(|(measure, _)| *measure).collect();
        measures.dedup();
        let mut header = vec![String::new()];
        header.extend(contenders.iter().map(|contender| contender.title().to_owned()));
        header.extend(["vs the better", "target", "met"].map(str::to_owned));
        let mut rows = vec![header];
        for measure in measures {
            let mut row = vec![measure.title()];
            row.extend(
                contenders
                    .iter()
                    .map(|contender| median(measure, *contender).map_or_else(String::new, |value| measure.show(value))),
            );
            let others = [Contender::KubeRuntime, Contender::ControllerRuntime];
            let others = others.iter().filter_map(|contender| median(measure, *contender));
            let best = if measure.more_is_better() { others.reduce(f64::max) } else { others.reduce(f64::min) };
            let ratio = median(measure, Contender::Windlass).zip(best).map(|(ours, theirs)| ours / theirs);
            let (sign, reaches): (_, fn(&f64, &f64) -> bool) =
                if measure.more_is_better() { (">=", f64::ge) } else { ("<=", f64::le) };
            let target = measure.target();
            let met = ratio.zip(target).map(|(ratio, target)| if reaches(&ratio, &target) { "yes" } else { "NO" });
            row.push(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x")));
            row.push(target.map_or_else(String::new, |target| format!("{sign} {target}x")));
            row.push(met.unwrap_or_default().to_owned());
            rows.push(row);
        }
        print!("{}", render(&rows));
    }
}

impl Measure {
    fn title(self) -> String {
        match self {
            Self::SyncTime => "sync, time".to_owned(),
            Self::PeakMemory => "sync, peak memory".to_owned(),
            Self::MemoryPerObject => "memory per object".to_owned(),
            Self::Reconciles => "no-op reconciles".to_owned(),
            Self::WriteMedian(rate) => format!("write to reconcile at {rate} /s, p50"),
            Self::WriteTail(rate) => format!("write to reconcile at {rate} /s, p99"),
            Self::EventMedian(rate) => format!("event to reconcile at {rate} /s, p50"),
            Self::EventTail(rate) => format!("event to reconcile at {rate} /s, p99"),
            Self::Queue(keys) => format!("queue of {keys} keys, add and get"),
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::SyncTime => format!("{value:.2} s"),
            Self::PeakMemory => format!("{:.0} MB", value / 1e6),
            Self::MemoryPerObject => format!("{value:.0} bytes"),
            Self::Reconciles | Self::Queue(_) => format!("{value:.0} /s"),
            Self::WriteMedian(_) | Self::WriteTail(_) | Self::EventMedian(_) | Self::EventTail(_) => {
                format!("{:.2} ms", value / 1e3)
            }
        }
    }

    fn more_is_better(self) -> bool {
        matches!(self, Self::Reconciles | Self::Queue(_))
    }

    /// Returns the required ratio to the better of the other two.
    fn target(self) -> Option<f64> {
        match self {
            Self::SyncTime | Self::PeakMemory | Self::MemoryPerObject | Self::EventTail(_) => Some(0.5),
            Self::Reconciles => Some(2.0),
            // Most of a write's duration is the same for all runtimes; even the floor has such a tail.
            Self::WriteMedian(_) | Self::WriteTail(_) | Self::EventMedian(_) | Self::Queue(_) => None,
        }
    }
}
