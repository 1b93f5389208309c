//! The table of CRD measurements. If the servers stored different numbers of CRDs, only costs per CRD are compared.

use windlass_bench::table::{render, thousands};

use super::Outcome;
use crate::{figures::Unit, report::show, servers::Which};

/// One row: its title and the value it shows of a server.
struct Line {
    title: &'static str,
    unit: Unit,
    about: About,
    value: fn(&Outcome) -> f64,
}

/// Subject of a value, which decides when two can be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// One CRD: always comparable.
    One,
    /// All CRDs: comparable if both servers stored as many.
    All,
    /// For information only.
    Remark,
}

const LINES: [Line; 16] = [
    line("write to first object, median", Unit::Seconds, About::One, |it| it.first.median_seconds()),
    line("write to first object, slowest", Unit::Seconds, About::One, |it| it.first.slowest_seconds()),
    line("objects sent until one is accepted", Unit::Count, About::Remark, |it| it.first.median_requests() as f64),
    line("CRDs", Unit::Count, About::Remark, |it| it.written.count as f64),
    line("CRDs written", Unit::PerSecond, About::One, |it| it.written.writes_per_second),
    line("CRDs written and served", Unit::PerSecond, About::One, |it| it.written.served_per_second),
    line("processor time per CRD", Unit::Seconds, About::One, |it| it.written.processor_for_one.as_secs_f64()),
    line("CRDs listed for the first time", Unit::PerSecond, About::One, |it| it.written.lists_per_second),
    line("memory with the CRDs", Unit::Bytes, About::All, |it| it.written.memory_written as f64),
    line("memory per CRD", Unit::Bytes, About::One, |it| it.for_one(it.written.memory_written)),
    line("memory per CRD once listed", Unit::Bytes, About::One, |it| it.for_one(it.written.memory_listed)),
    line("restart to ready", Unit::Seconds, About::All, |it| it.full.ready.as_secs_f64()),
    line("restart to a list of the last CRD", Unit::Seconds, About::All, |it| it.full.served.as_secs_f64()),
    line("extra restart time per CRD", Unit::Seconds, About::One, Outcome::restart_for_one),
    line("memory after the restart", Unit::Bytes, About::All, |it| it.full.memory as f64),
    line("memory per CRD after the restart", Unit::Bytes, About::One, Outcome::restarted_memory_for_one),
];

const fn line(title: &'static str, unit: Unit, about: About, value: fn(&Outcome) -> f64) -> Line {
    Line { title, unit, about, value }
}

impl Outcome {
    fn for_one(&self, memory: u64) -> f64 {
        (memory as f64 - self.written.memory_before as f64) / self.written.count as f64
    }

    fn restart_for_one(&self) -> f64 {
        (self.full.served.as_secs_f64() - self.empty.served.as_secs_f64()) / self.kept as f64
    }

    fn restarted_memory_for_one(&self) -> f64 {
        (self.full.memory as f64 - self.empty.memory as f64) / self.kept as f64
    }
}

/// Renders the table in Markdown, with notes below it.
pub(super) fn table(outcomes: &[(Which, Outcome)]) -> String {
    let of = |which| outcomes.iter().find(|(other, _)| *other == which).map(|(_, outcome)| outcome);
    let (theirs, ours) = (of(Which::Kubernetes), of(Which::Windlass));
    let header = ["", Which::Kubernetes.title(), Which::Windlass.title(), "ratio"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for line in LINES {
        let shown = |outcome: Option<&Outcome>| outcome.map(|outcome| line.show(outcome)).unwrap_or_default();
        let ratio = theirs.zip(ours).and_then(|(theirs, ours)| line.ratio(theirs, ours));
        let ratio = ratio.map(|ratio| format!("{ratio:.1}x")).unwrap_or_default();
        rows.push(vec![line.title.to_owned(), shown(theirs), shown(ours), ratio]);
    }
    let mut text = render(&rows);
    if let Some((_, outcome)) = outcomes.first() {
        text +=
            &format!("\nThe first three rows are for {} CRDs that were created one by one.\n", outcome.first.count());
    }
    if let Some((theirs, ours)) = theirs.zip(ours).filter(|(theirs, ours)| theirs.kept != ours.kept) {
        text += &format!(
            "{} stored {} CRDs, {} stored {}: only rates and costs per CRD are compared, not totals.\n",
            Which::Kubernetes.title(),
            thousands(theirs.kept as u64),
            Which::Windlass.title(),
            thousands(ours.kept as u64),
        );
    }
    text
}

impl Line {
    fn show(&self, outcome: &Outcome) -> String {
        let value = (self.value)(outcome);
        // A difference of two measurements can be smaller than their noise.
        if value > 0.0 { show(self.unit, value) } else { "not measurable".to_owned() }
    }

    fn ratio(&self, theirs: &Outcome, ours: &Outcome) -> Option<f64> {
        let comparable = match self.about {
            About::One => true,
            About::All => theirs.kept == ours.kept,
            About::Remark => false,
        };
        let (theirs, ours) = ((self.value)(theirs), (self.value)(ours));
        (comparable && theirs > 0.0 && ours > 0.0).then(|| self.unit.ratio(ours, theirs))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::definitions::{FirstInstances, Restart, Written};

    fn outcome(count: usize, millis: u64, memory: u64) -> Outcome {
        let restart = |millis, memory| Restart {
            ready: Duration::from_millis(millis),
            served: Duration::from_millis(millis),
            memory,
        };
        Outcome {
            first: FirstInstances::of(vec![(Duration::from_millis(millis), 1)]),
            written: Written {
                count,
                writes_per_second: 1e3 / millis as f64,
                served_per_second: 0.5e3 / millis as f64,
                processor_for_one: Duration::from_millis(millis),
                lists_per_second: 1e3,
                memory_before: 1_000_000,
                memory_written: 1_000_000 + count as u64 * memory,
                memory_listed: 1_000_000 + count as u64 * memory * 2,
            },
            empty: restart(10, 500_000),
            full: restart(10 + millis * count as u64, 500_000),
            kept: count,
        }
    }

    fn cells(table: &str, title: &str) -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(&format!("| {title} "))).expect("the line must exist");
        line.split('|').map(|cell| cell.trim().to_owned()).skip(2).take(3).collect()
    }

    #[test]
    fn costs_per_definition_are_compared_and_totals_only_for_equal_numbers() {
        let (theirs, ours) = ((Which::Kubernetes, outcome(10, 20, 8000)), (Which::Windlass, outcome(100, 2, 1000)));
        let unequal = table(&[theirs, ours]);
        assert_eq!(cells(&unequal, "write to first object, median"), ["20.0 ms", "2.0 ms", "10.0x"]);
        assert_eq!(cells(&unequal, "CRDs written"), ["50 /s", "500 /s", "10.0x"]);
        assert_eq!(cells(&unequal, "memory per CRD"), ["8.0 KB", "1.0 KB", "8.0x"]);
        assert_eq!(cells(&unequal, "extra restart time per CRD"), ["20.0 ms", "2.0 ms", "10.0x"]);
        assert_eq!(cells(&unequal, "restart to ready"), ["210.0 ms", "210.0 ms", ""]);
        assert!(unequal.contains("stored 10 CRDs, Windlass stored 100"), "{unequal}");

        let equal = table(&[(Which::Kubernetes, outcome(10, 20, 8000)), (Which::Windlass, outcome(10, 2, 1000))]);
        assert_eq!(cells(&equal, "restart to ready"), ["210.0 ms", "30.0 ms", "7.0x"]);
        assert!(!equal.contains("kept"), "{equal}");
    }

    #[test]
    fn a_lost_difference_is_reported() {
        let table = table(&[(Which::Kubernetes, outcome(10, 20, 8000)), (Which::Windlass, outcome(10, 2, 1000))]);
        let lost = "not measurable";
        assert_eq!(cells(&table, "memory per CRD after the restart"), [lost, lost, ""]);
    }
}
