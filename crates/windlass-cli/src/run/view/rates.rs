//! Rates and durations derived from counters.

use std::collections::{BTreeMap, VecDeque};

use crate::run::event::ControllerNumbers;

/// Number of seconds in the window.
pub(crate) const WINDOW: usize = 60;

/// Statistics of a controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Controller {
    /// Reconciles per second, newest last.
    pub(crate) rates: VecDeque<f64>,
    /// Failures since the start of the run, across restarts of the operator.
    pub(crate) errors: f64,
    /// Scrapes since the last failure.
    pub(crate) since_error: usize,
    pub(crate) queued: f64,
    pub(crate) active: f64,
    /// Reconciles since the start of the run.
    pub(crate) reconciles: f64,
    /// Reconciles by cause since the start of the run.
    pub(crate) causes: BTreeMap<String, f64>,
    last: ControllerNumbers,
    /// Histogram buckets of the last scrapes.
    buckets: VecDeque<Vec<(f64, f64)>>,
}

/// A duration, as precise as histogram buckets allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Took {
    /// At most the lowest bound, in seconds.
    Within(f64),
    About(f64),
    /// More than the highest bound.
    Beyond(f64),
}

/// Records a scrape, `seconds` after the previous one.
pub(crate) fn record(controllers: &mut BTreeMap<String, Controller>, numbers: Vec<ControllerNumbers>, seconds: f64) {
    for new in numbers {
        let is_first = !controllers.contains_key(&new.name);
        controllers.entry(new.name.clone()).or_default().record(new, seconds, is_first);
    }
}

impl Controller {
    fn record(&mut self, new: ControllerNumbers, seconds: f64, is_first: bool) {
        // A restarted process counts from zero.
        let restarted = new.reconciles < self.last.reconciles || new.errors < self.last.errors;
        let before = if restarted { ControllerNumbers::default() } else { std::mem::take(&mut self.last) };
        if restarted {
            self.buckets.clear();
        }
        let done = new.reconciles - before.reconciles;
        let failed = new.errors - before.errors;
        self.reconciles += done;
        self.errors += failed;
        for (cause, count) in &new.causes {
            let more = count - before.causes.get(cause).copied().unwrap_or_default();
            *self.causes.entry(cause.clone()).or_default() += more;
        }
        self.since_error = if failed > 0.0 { 0 } else { self.since_error.saturating_add(1) };
        // The duration before the first scrape is unknown.
        let rate = if is_first { done } else { done / seconds.max(0.1) };
        push(&mut self.rates, rate, WINDOW);
        push(&mut self.buckets, new.buckets.clone(), WINDOW);
        (self.queued, self.active) = (new.queued, new.active);
        self.last = new;
    }

    /// Reconciles per second over the last seconds.
    pub(crate) fn rate(&self) -> f64 {
        let last = self.rates.iter().rev().take(5);
        let count = last.len();
        if count == 0 { 0.0 } else { last.sum::<f64>() / count as f64 }
    }

    /// Quantile of the reconcile duration: within the window if there were reconciles, or else of all.
    pub(crate) fn quantile(&self, part: f64) -> Option<Took> {
        let newest = self.buckets.back()?;
        let oldest = self.buckets.front().filter(|oldest| oldest.len() == newest.len());
        let difference = |oldest: &Vec<(f64, f64)>| -> Vec<(f64, f64)> {
            newest.iter().zip(oldest).map(|((bound, new), (_, old))| (*bound, new - old)).collect()
        };
        let within = oldest.map(difference);
        within.and_then(|buckets| quantile(&buckets, part)).or_else(|| quantile(newest, part))
    }
}

fn push<T>(values: &mut VecDeque<T>, value: T, longest: usize) {
    values.push_back(value);
    while values.len() > longest {
        values.pop_front();
    }
}

/// As in Prometheus: values are assumed to be evenly distributed within a bucket.
fn quantile(buckets: &[(f64, f64)], part: f64) -> Option<Took> {
    let total = buckets.last().map(|(_, count)| *count).filter(|total| *total > 0.0)?;
    let rank = part * total;
    let place = buckets.iter().position(|(_, count)| *count >= rank)?;
    let (bound, count) = buckets[place];
    let Some((lower, below)) = place.checked_sub(1).map(|before| buckets[before]) else {
        return Some(Took::Within(bound));
    };
    if bound.is_infinite() {
        return Some(Took::Beyond(lower));
    }
    Some(Took::About(lower + (bound - lower) * (rank - below) / (count - below).max(f64::MIN_POSITIVE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(reconciles: f64, errors: f64) -> ControllerNumbers {
        ControllerNumbers { name: "book".into(), reconciles, errors, ..ControllerNumbers::default() }
    }

    fn after(scrapes: &[(f64, f64)]) -> Controller {
        let mut controllers = BTreeMap::new();
        for (reconciles, errors) in scrapes {
            record(&mut controllers, vec![numbers(*reconciles, *errors)], 2.0);
        }
        controllers.remove("book").unwrap()
    }

    #[test]
    fn rates_are_differences_over_time() {
        let controller = after(&[(3.0, 0.0), (7.0, 0.0), (7.0, 1.0)]);
        assert_eq!(controller.rates, [3.0, 2.0, 0.0]);
        assert_eq!((controller.reconciles, controller.errors, controller.since_error), (7.0, 1.0, 0));
    }

    #[test]
    fn a_restart_does_not_decrease_counters() {
        let controller = after(&[(10.0, 2.0), (4.0, 0.0), (6.0, 0.0)]);
        assert_eq!(controller.rates, [10.0, 2.0, 1.0]);
        assert_eq!((controller.reconciles, controller.errors, controller.since_error), (16.0, 2.0, 2));
    }

    #[test]
    fn causes_add_up_across_restarts() {
        let mut controllers = BTreeMap::new();
        for (reconciles, objects) in [(3.0, 2.0), (5.0, 4.0), (1.0, 1.0)] {
            let causes = [("object".to_owned(), objects)].into();
            record(&mut controllers, vec![ControllerNumbers { causes, ..numbers(reconciles, 0.0) }], 1.0);
        }
        assert_eq!(controllers["book"].causes["object"], 5.0);
    }

    #[test]
    fn only_a_window_is_kept() {
        let scrapes: Vec<(f64, f64)> = (0..100).map(|number| (f64::from(number), 0.0)).collect();
        assert_eq!(after(&scrapes).rates.len(), WINDOW);
    }

    #[test]
    fn durations_are_as_precise_as_the_buckets() {
        let infinite = f64::INFINITY;
        for (buckets, part, expected) in [
            (&[(0.005, 9.0), (0.01, 10.0), (infinite, 10.0)][..], 0.5, Some(Took::Within(0.005))),
            (&[(1.0, 0.0), (2.0, 10.0), (infinite, 10.0)], 0.5, Some(Took::About(1.5))),
            (&[(1.0, 0.0), (2.0, 5.0), (infinite, 10.0)], 0.99, Some(Took::Beyond(2.0))),
            (&[(1.0, 0.0), (infinite, 0.0)], 0.5, None),
            (&[], 0.5, None),
        ] {
            assert_eq!(quantile(buckets, part), expected, "{buckets:?}");
        }
    }
}
