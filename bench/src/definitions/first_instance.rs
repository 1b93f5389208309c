//! Time from the write of a CRD to its first accepted object.

use std::time::{Duration, Instant};

use anyhow::bail;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::progress::Progress;
use crate::{
    client::{Body, Client, POLL, SERVED_WITHIN},
    definition::Definition,
    figures::Unit,
    report::show,
};

/// Duration of each sample.
#[derive(Debug)]
pub(super) struct FirstInstances {
    /// In ascending order.
    elapsed: Vec<Duration>,
    /// Number of objects sent until one was accepted, in ascending order.
    requests: Vec<usize>,
}

impl FirstInstances {
    /// Builds the result from time and number of requests per CRD.
    pub(super) fn of(samples: Vec<(Duration, usize)>) -> Self {
        let (mut elapsed, mut requests): (Vec<_>, Vec<_>) = samples.into_iter().unzip();
        elapsed.sort_unstable();
        requests.sort_unstable();
        Self { elapsed, requests }
    }

    pub(super) fn median_seconds(&self) -> f64 {
        median(&self.elapsed).unwrap_or_default().as_secs_f64()
    }

    pub(super) fn slowest_seconds(&self) -> f64 {
        self.elapsed.last().copied().unwrap_or_default().as_secs_f64()
    }

    pub(super) fn median_requests(&self) -> usize {
        median(&self.requests).unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.elapsed.len()
    }

    pub(super) fn to_json(&self) -> Value {
        let seconds: Vec<f64> = self.elapsed.iter().map(Duration::as_secs_f64).collect();
        json!({"seconds": seconds, "requests": self.requests, "medianSeconds": self.median_seconds()})
    }
}

/// Creates the CRDs one by one, and after each an object until it is accepted.
pub(super) async fn measure(client: &Client, samples: usize) -> anyhow::Result<FirstInstances> {
    let progress = Progress::new(samples, "CRDs accept an object");
    let mut measured = Vec::with_capacity(samples);
    for number in 0..samples {
        let definition = Definition::numbered(number);
        let begin = Instant::now();
        definition.create(client, 0).await?;
        let requests = first(client, &definition, begin).await?;
        measured.push((begin.elapsed(), requests));
        progress.step();
    }
    let first = FirstInstances::of(measured);
    eprintln!(
        "  write to first object: median {}, slowest {}, objects sent {} (median)",
        show(Unit::Seconds, first.median_seconds()),
        show(Unit::Seconds, first.slowest_seconds()),
        first.median_requests()
    );
    Ok(first)
}

/// Sends an object until it is accepted and returns the number of attempts.
async fn first(client: &Client, definition: &Definition, begin: Instant) -> anyhow::Result<usize> {
    let (path, body) = (definition.collection(), Body::json(&definition.instance()));
    let mut requests = 0;
    loop {
        let (status, answer) = client.ask(Method::POST, &path, body.clone()).await?;
        requests += 1;
        match status {
            StatusCode::CREATED => return Ok(requests),
            // Not served yet, or not yet known to every component.
            StatusCode::NOT_FOUND | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
                if begin.elapsed() < SERVED_WITHIN =>
            {
                tokio::time::sleep(POLL).await;
            }
            status => bail!("POST {path}: {status}: {answer}"),
        }
    }
}

/// Returns the median; the lower one of two.
fn median<T: Copy>(sorted: &[T]) -> Option<T> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_value_that_was_measured() {
        assert_eq!(median::<u8>(&[]), None);
        assert_eq!(median(&[1, 2, 9]), Some(2));
        assert_eq!(median(&[1, 2, 8, 9]), Some(2));
    }
}
