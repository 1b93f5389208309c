//! The demand of a priority level for seats over a period, from which its share is computed.

use std::time::Duration;

/// Share of the smoothed demand that remains after a period: half of it after five minutes.
const SMOOTHING: f64 = 0.977;

/// The integral of the demand over time.
#[derive(Debug)]
pub(super) struct Demand {
    since: Duration,
    seats: f64,
    seconds: f64,
    sum: f64,
    sum_of_squares: f64,
    highest: f64,
    /// The results of the past periods.
    pub(super) past: PastDemand,
}

/// The demand in the last period, and smoothed over many.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PastDemand {
    pub(super) average: f64,
    pub(super) deviation: f64,
    pub(super) highest: usize,
    pub(super) smoothed: f64,
}

impl Demand {
    pub(super) fn new(now: Duration) -> Self {
        let past = PastDemand::default();
        Self { since: now, seats: 0.0, seconds: 0.0, sum: 0.0, sum_of_squares: 0.0, highest: 0.0, past }
    }

    /// Records the number of seats that could be used from now on.
    pub(super) fn set(&mut self, now: Duration, seats: f64) {
        self.integrate(now);
        self.seats = seats;
        self.highest = self.highest.max(seats);
    }

    fn integrate(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.since).as_secs_f64();
        self.since = self.since.max(now);
        self.seconds += elapsed;
        self.sum += self.seats * elapsed;
        self.sum_of_squares += self.seats * self.seats * elapsed;
    }

    /// Ends a period and begins the next.
    pub(super) fn end_period(&mut self, now: Duration) -> PastDemand {
        self.integrate(now);
        self.past.highest = self.highest.round() as usize;
        if self.seconds > 0.0 {
            let average = self.sum / self.seconds;
            let deviation = (self.sum_of_squares / self.seconds - average * average).max(0.0).sqrt();
            let envelope = average + deviation;
            let smoothed = envelope.max(SMOOTHING * self.past.smoothed + (1.0 - SMOOTHING) * envelope);
            self.past = PastDemand { average, deviation, smoothed, ..self.past };
        }
        (self.seconds, self.sum, self.sum_of_squares, self.highest) = (0.0, 0.0, 0.0, self.seats);
        self.past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn demand_is_averaged_over_time() {
        let mut demand = Demand::new(at(0));
        demand.set(at(0), 4.0);
        demand.set(at(5), 0.0);
        let past = demand.end_period(at(10));
        assert_eq!(past, PastDemand { average: 2.0, deviation: 2.0, highest: 4, smoothed: 4.0 });
        let next = demand.end_period(at(20));
        assert_eq!((next.average, next.highest), (0.0, 0));
        assert!((next.smoothed - 4.0 * SMOOTHING).abs() < 1e-9, "demand is remembered for minutes");
    }

    #[test]
    fn a_period_without_duration_changes_only_the_highest_demand() {
        let mut demand = Demand::new(at(1));
        demand.set(at(1), 3.0);
        assert_eq!(demand.end_period(at(1)), PastDemand { highest: 3, ..PastDemand::default() });
    }
}
