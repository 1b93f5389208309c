//! One phase of the load: the same kind of request many times, from several lanes at once.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

/// Amount of work in a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Minimum number of requests.
    pub(crate) requests: usize,
    /// Number of concurrent requests.
    pub(crate) lanes: usize,
    /// Minimum duration. More requests are sent until it has passed, so that fast servers are measured for long enough.
    pub(crate) at_least: Duration,
}

/// Results of a phase.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) elapsed: Duration,
    /// Latencies in ascending order.
    pub(crate) micros: Vec<u32>,
    /// Total size of the responses.
    pub(crate) bytes: u64,
}

impl Samples {
    pub(crate) fn per_second(&self) -> f64 {
        self.micros.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the latency that the given share of the requests did not exceed.
    pub(crate) fn quantile(&self, part: f64) -> u32 {
        let rank = (self.micros.len() as f64 * part).ceil() as usize;
        self.micros.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

/// Results of a phase, and what it cost the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    /// Processor time of the server per request.
    pub(crate) processor: Duration,
}

impl Rate {
    pub(crate) fn of(samples: &Samples, processor: Duration) -> anyhow::Result<Self> {
        Ok(Self { per_second: samples.per_second(), processor: processor / u32::try_from(samples.micros.len())? })
    }

    /// Returns the median of each number over the rounds of a phase, at least one.
    pub(crate) fn median(mut rounds: Vec<Self>) -> Self {
        let middle = rounds.len() / 2;
        rounds.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
        let per_second = rounds[middle].per_second;
        rounds.sort_by_key(|round| round.processor);
        Self { per_second, processor: rounds[middle].processor }
    }
}

/// Formats a time for a table.
pub(crate) fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// Runs a phase. `request` receives lane and number and returns the size of the response; the first failure ends the
/// phase.
pub(crate) async fn run<F, Answer>(plan: Plan, request: F) -> anyhow::Result<Samples>
where
    F: Fn(usize, usize) -> Answer + Clone + Send + 'static,
    Answer: Future<Output = anyhow::Result<u64>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut lanes = JoinSet::new();
    for lane in 0..plan.lanes {
        let (next, request) = (next.clone(), request.clone());
        lanes.spawn(async move {
            let mut micros = Vec::new();
            let mut bytes = 0;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= plan.requests && start.elapsed() >= plan.at_least {
                    return anyhow::Ok((micros, bytes));
                }
                let begin = Instant::now();
                bytes += request(lane, number).await?;
                micros.push(u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
        });
    }
    let mut samples = Samples { elapsed: Duration::ZERO, micros: Vec::new(), bytes: 0 };
    while let Some(lane) = lanes.join_next().await {
        let (micros, bytes) = lane??;
        samples.micros.extend(micros);
        samples.bytes += bytes;
    }
    samples.elapsed = start.elapsed();
    samples.micros.sort_unstable();
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { requests: 10, lanes: 3, at_least: Duration::ZERO };

    #[tokio::test]
    async fn every_number_is_requested_once() {
        let numbers = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = numbers.clone();
        let samples = run(PLAN, move |_, number| {
            seen.lock().unwrap().push(number);
            async { Ok(5) }
        });
        let samples = samples.await.unwrap();
        assert_eq!((samples.micros.len(), samples.bytes), (10, 50));
        let mut numbers = numbers.lock().unwrap().clone();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_failure_ends_the_phase() {
        let result = run(PLAN, |_, number| async move { if number == 4 { Err(anyhow::anyhow!("no")) } else { Ok(1) } });
        assert_eq!(result.await.unwrap_err().to_string(), "no");
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let samples = Samples { elapsed: Duration::from_secs(2), micros: (1..=100).collect(), bytes: 0 };
        assert_eq!((samples.quantile(0.5), samples.quantile(0.99), samples.quantile(1.0)), (50, 99, 100));
        assert_eq!(samples.per_second(), 50.0);
    }
}
