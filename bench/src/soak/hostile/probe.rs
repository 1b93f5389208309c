//! A well-behaved client that runs alongside the hostile ones.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_bench::table::thousands;

use super::{COLLECTION, OBJECTS, PROBED_WITHIN, name, raw::Target};
use crate::client::{Body, Client};

/// Interval between requests.
const EVERY: Duration = Duration::from_millis(50);

/// Latencies of all requests in microseconds, and the failures.
#[derive(Debug, Default)]
pub(super) struct Probes(Mutex<(Vec<u32>, Vec<String>)>);

/// Writes and reads an object on a connection that stays open and on a new one each time, forever.
pub(super) async fn run(target: Arc<Target>, probes: Arc<Probes>) -> anyhow::Result<()> {
    let kept = Client::connect(&target.url, &target.tls, 1).await?;
    for number in 0_usize.. {
        let path = format!("{COLLECTION}/{}", name(number % OBJECTS));
        let begin = Instant::now();
        let probe = timeout(PROBED_WITHIN, async {
            let fresh = match number % 2 {
                0 => kept.clone(),
                _ => Client::connect(&target.url, &target.tls, 1).await.context("failed to connect")?,
            };
            let (method, body) = match number % 4 {
                0 | 1 => {
                    let bytes = json!({"spec": {"holderIdentity": number.to_string()}}).to_string().into();
                    (Method::PATCH, Body { content_type: "application/merge-patch+json", bytes })
                }
                _ => (Method::GET, Body::default()),
            };
            fresh.measure(0, method, &path, body).await
        });
        probes.add(begin, probe.await.map_err(anyhow::Error::from).flatten());
        tokio::time::sleep(EVERY).await;
    }
    bail!("too many probes")
}

impl Probes {
    fn add(&self, begin: Instant, result: anyhow::Result<u64>) {
        let mut probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(_) => probes.0.push(u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX)),
            Err(error) => probes.1.push(format!("{error:#}")),
        }
    }

    /// Returns the number of responses, the number of failures, and the latencies at some quantiles in milliseconds.
    fn summary(&self) -> (usize, usize, [f64; 3]) {
        let mut probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        probes.0.sort_unstable();
        let at = |share: f64| {
            let rank = (probes.0.len() as f64 * share).ceil() as usize;
            f64::from(probes.0.get(rank.saturating_sub(1)).copied().unwrap_or(0)) / 1e3
        };
        (probes.0.len(), probes.1.len(), [at(0.5), at(0.99), at(1.0)])
    }

    pub(super) fn to_json(&self) -> Value {
        let (answered, failed, [median, most, slowest]) = self.summary();
        json!({"answered": answered, "failed": failed, "medianMs": median, "p99Ms": most, "slowestMs": slowest})
    }

    /// Fails if a request failed.
    pub(super) fn judge(&self) -> anyhow::Result<()> {
        let probes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(probes.1.is_empty(), "{} requests of another client failed: {}", probes.1.len(), probes.1[0]);
        Ok(())
    }
}

impl fmt::Display for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answered, failed, [median, most, slowest]) = self.summary();
        write!(f, "{} answered, {failed} failed; ", thousands(answered as u64))?;
        write!(f, "{median:.1} ms median, {most:.1} ms p99, {slowest:.1} ms at most")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_reported_with_their_cause() {
        let probes = Probes::default();
        probes.add(Instant::now(), Ok(1));
        probes.judge().unwrap();
        probes.add(Instant::now(), Err(anyhow::anyhow!("connection reset")));
        assert_eq!(probes.judge().unwrap_err().to_string(), "1 requests of another client failed: connection reset");
        assert!(probes.to_string().starts_with("1 answered, 1 failed;"));
    }
}
