//! Reconciles with their causes, as lines of a log.

use std::collections::BTreeMap;

use super::log::{Level, Line, Log};
use crate::run::event::{Reconcile, Source};

/// Reconciles since the start of the run.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) log: Log,
    /// Number of the last known reconcile of each controller.
    last: BTreeMap<String, u64>,
}

impl History {
    /// Adds the reconciles that are new. Those that no scrape has seen are only counted.
    pub(crate) fn record(&mut self, reconciles: Vec<Reconcile>) {
        for reconcile in reconciles {
            let last = self.last.entry(reconcile.controller.clone()).or_default();
            if reconcile.number <= *last {
                continue;
            }
            let missed = reconcile.number - *last - 1;
            *last = reconcile.number;
            if missed > 0 {
                let text = format!("{missed} other reconciles");
                self.log.push(line(&reconcile, Level::Debug, text));
            }
            let level = if reconcile.has_failed() { Level::Error } else { Level::Info };
            self.log.push(line(&reconcile, level, reconcile.sentence()));
        }
    }

    /// A new process counts its reconciles from one.
    pub(crate) fn restart(&mut self) {
        self.last.clear();
    }
}

fn line(reconcile: &Reconcile, level: Level, text: String) -> Line {
    let time = reconcile.ended.strftime("%H:%M:%S").to_string();
    Line { source: Source::Operator, time, level, about: reconcile.controller.clone(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reconcile(controller: &str, number: u64, result: &str) -> Reconcile {
        Reconcile {
            controller: controller.into(),
            number,
            object: "default/first".into(),
            causes: vec!["object 4->7".into(), "ConfigMap default/web 9->".into()],
            ended: "2026-05-06T07:08:09Z".parse().unwrap(),
            seconds: 0.0123,
            result: result.into(),
        }
    }

    fn lines(history: &History) -> Vec<String> {
        let shown = |line: &&Line| format!("{} {} {} {}", line.time, line.level.name(), line.about, line.text);
        history.log.window(99).iter().map(shown).collect()
    }

    #[test]
    fn every_reconcile_is_shown_once_with_its_object_and_causes() {
        let mut history = History::default();
        let first = || reconcile("book", 1, "success");
        history.record(vec![first(), reconcile("pages", 1, "error")]);
        history.record(vec![first(), reconcile("book", 2, "requeue_after")]);
        assert_eq!(
            lines(&history),
            [
                "07:08:09 INFO book default/first: object 4->7, ConfigMap default/web 9-> (12ms)",
                "07:08:09 ERROR pages default/first: object 4->7, ConfigMap default/web 9-> (12ms, error)",
                "07:08:09 INFO book default/first: object 4->7, ConfigMap default/web 9-> (12ms, requeue_after)",
            ]
        );
    }

    #[test]
    fn reconciles_between_two_scrapes_are_counted_if_there_are_too_many() {
        let mut history = History::default();
        history.record(vec![reconcile("book", 1, "success")]);
        history.record(vec![reconcile("book", 60, "success")]);
        assert_eq!(lines(&history)[1], "07:08:09 DEBUG book 58 other reconciles");
        assert_eq!(history.log.len(), 3);
    }

    #[test]
    fn a_restarted_operator_counts_from_one() {
        let mut history = History::default();
        history.record(vec![reconcile("book", 1, "success")]);
        history.restart();
        history.record(vec![reconcile("book", 1, "success")]);
        assert_eq!(history.log.len(), 2);
    }
}
