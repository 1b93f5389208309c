//! The last reconciles of a controller, with what has caused each, for `/debug/state`.

use std::{collections::VecDeque, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Causes;
use crate::key::ObjectKey;

/// Number of reconciles that are kept per controller.
const KEPT: usize = 50;

/// The last reconciles of a controller. Kept only if something shows them.
#[derive(Default)]
pub(crate) struct RecentReconciles(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    /// Number of all reconciles so far.
    count: u64,
    last: VecDeque<RecentReconcile>,
}

/// A reconcile that has ended.
pub(super) struct RecentReconcile {
    pub(super) key: ObjectKey,
    pub(super) causes: Causes,
    /// Time of its end.
    pub(super) ended: Timestamp,
    pub(super) took: Duration,
    /// `success`, `requeue_after`, `error`, `panic`, `timeout` or `dropped`.
    pub(super) result: &'static str,
}

impl RecentReconciles {
    pub(super) fn record(&self, reconcile: RecentReconcile) {
        let mut recorded = self.0.lock();
        recorded.count += 1;
        if recorded.last.len() == KEPT {
            recorded.last.pop_front();
        }
        recorded.last.push_back(reconcile);
    }

    /// Returns the reconciles, oldest first. Their numbers tell a reader which of them are new.
    pub(crate) fn view(&self) -> Value {
        let recorded = self.0.lock();
        let first = recorded.count - recorded.last.len() as u64 + 1;
        (first..).zip(&recorded.last).map(|(number, reconcile)| reconcile.view(number)).collect()
    }
}

impl RecentReconcile {
    fn view(&self, number: u64) -> Value {
        json!({
            "number": number,
            "object": self.key.to_string(),
            "causes": self.causes.texts(),
            "ended": self.ended.to_string(),
            "seconds": self.took.as_secs_f64(),
            "result": self.result,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: u64) -> RecentReconcile {
        RecentReconcile {
            key: ObjectKey::namespaced("default", &number.to_string()),
            causes: Causes::retry(),
            ended: Timestamp::UNIX_EPOCH,
            took: Duration::from_millis(1500),
            result: "error",
        }
    }

    #[test]
    fn only_the_last_reconciles_are_kept_under_their_numbers() {
        let recent = RecentReconciles::default();
        assert_eq!(recent.view(), json!([]));
        let last = KEPT as u64 + 2;
        (1..=last).for_each(|number| recent.record(numbered(number)));
        let view = recent.view();
        let shown: Vec<u64> = view.as_array().unwrap().iter().map(|one| one["number"].as_u64().unwrap()).collect();
        assert_eq!(shown, (3..=last).collect::<Vec<_>>());
        assert_eq!(
            view[KEPT - 1],
            json!({
                "number": last,
                "object": format!("default/{last}"),
                "causes": ["retry"],
                "ended": "1970-01-01T00:00:00Z",
                "seconds": 1.5,
                "result": "error",
            })
        );
    }
}
