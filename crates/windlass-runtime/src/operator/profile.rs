//! CPU profiles of the process: `/debug/pprof/profile?seconds=N`, in the format of pprof.

mod encode;

use std::{sync::Arc, time::Duration};

use pprof::ProfilerGuardBuilder;
use tokio::sync::Semaphore;

/// Default duration of a profile, as in Go's net/http/pprof.
const DEFAULT_SECONDS: u64 = 30;
/// The longest profile.
const MAX_SECONDS: u64 = 60;
/// Samples per second of processor time: not a divisor of the frequency of timers.
const FREQUENCY: i32 = 99;
/// Libraries that must not be unwound from a signal handler, because they hold locks.
const BLOCKED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Records profiles, one at a time. A cheap handle.
#[derive(Clone)]
pub(super) struct Profiler {
    free: Arc<Semaphore>,
}

/// Error of a profile.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    #[error("invalid number of seconds {0:?}: expected 1 to {MAX_SECONDS}")]
    Seconds(String),
    #[error("another profile is being recorded")]
    Busy,
    #[error("failed to record a profile: {0}")]
    Record(pprof::Error),
    #[error("failed to compress a profile: {0}")]
    Compress(std::io::Error),
    #[error("failed to read a profile: {0}")]
    Read(tokio::task::JoinError),
}

impl Profiler {
    pub(super) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(1)) }
    }

    /// Records a profile for as long as the query of the request says. If the client disconnects, recording stops.
    pub(super) async fn record(&self, query: &str) -> Result<Vec<u8>, ProfileError> {
        let duration = duration(query)?;
        let permit = self.free.clone().try_acquire_owned().map_err(|_| ProfileError::Busy)?;
        let recording = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&BLOCKED).build();
        let recording = recording.map_err(ProfileError::Record)?;
        tokio::time::sleep(duration).await;
        // Finding the names of functions takes a while.
        let reading = tokio::task::spawn_blocking(move || {
            let report = recording.report().build().map_err(ProfileError::Record)?;
            drop((recording, permit));
            encode::gzip(&encode::profile(&report)).map_err(ProfileError::Compress)
        });
        reading.await.map_err(ProfileError::Read)?
    }
}

fn duration(query: &str) -> Result<Duration, ProfileError> {
    let seconds = query.split('&').find_map(|pair| pair.strip_prefix("seconds="));
    let Some(text) = seconds else { return Ok(Duration::from_secs(DEFAULT_SECONDS)) };
    let seconds: Option<u64> = text.parse().ok().filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| ProfileError::Seconds(text.to_owned()))
}

#[cfg(test)]
pub(super) mod tests;
