//! Many CRDs: how fast they are written, how fast each is listed for the first time, and how much memory they need.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use windlass_bench::table::thousands;

use super::progress::Progress;
use crate::{
    client::Client,
    definition::Definition,
    phase::{self, Plan, Samples},
    servers::Running,
};

/// Results.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) count: usize,
    /// CRDs acknowledged per second.
    pub(super) writes_per_second: f64,
    /// The same, including the time until the last of them is served.
    pub(super) served_per_second: f64,
    /// Processor time of the server per CRD, until it is idle again.
    pub(super) processor_for_one: Duration,
    /// First lists of a CRD's objects per second, including the wait for it to be served.
    pub(super) lists_per_second: f64,
    /// Resident memory of the idle server: before, after all were written, and after each was listed.
    pub(super) memory_before: u64,
    pub(super) memory_written: u64,
    pub(super) memory_listed: u64,
}

impl Written {
    pub(super) fn to_json(&self) -> Value {
        json!({"definitions": self.count, "writesPerSecond": self.writes_per_second,
            "servedPerSecond": self.served_per_second, "serverCpuSeconds": self.processor_for_one.as_secs_f64(),
            "firstListsPerSecond": self.lists_per_second, "memoryBytesBefore": self.memory_before,
            "memoryBytesWritten": self.memory_written, "memoryBytesListed": self.memory_listed})
    }
}

/// Creates the CRDs of these numbers, then lists the objects of each.
pub(super) async fn write(
    server: &Running,
    client: &Client,
    numbers: Range<usize>,
    lanes: usize,
) -> anyhow::Result<Written> {
    let count = numbers.len();
    server.settle().await?;
    let (memory_before, processor_before) = (server.memory()?, server.processor_time()?);

    let begin = Instant::now();
    let lane_client = client.clone();
    let writes = each(numbers.clone(), lanes, "CRDs written", move |lane, definition| {
        let client = lane_client.clone();
        async move { definition.create(&client, lane).await }
    })
    .await?;
    client.until_served(0, &Definition::numbered(numbers.end - 1).collection()).await?;
    let served = begin.elapsed();
    // Work that the server still does for acknowledged CRDs is part of their cost.
    server.settle().await?;
    let (memory_written, processor) = (server.memory()?, server.processor_time()? - processor_before);

    let lane_client = client.clone();
    let lists = each(numbers, lanes, "CRDs listed", move |lane, definition| {
        let client = lane_client.clone();
        async move { client.until_served(lane, &definition.collection()).await }
    })
    .await?;
    server.settle().await?;
    let memory_listed = server.memory()?;

    let written = Written {
        count,
        writes_per_second: writes.per_second(),
        served_per_second: count as f64 / served.as_secs_f64(),
        processor_for_one: processor.div_f64(count as f64),
        lists_per_second: lists.per_second(),
        memory_before,
        memory_written,
        memory_listed,
    };
    eprintln!(
        "  {} CRDs: {:.0} written /s, p50 {} us, p99 {} us, server {} us; {:.0} listed for the first time /s",
        thousands(count as u64),
        written.writes_per_second,
        writes.quantile(0.5),
        writes.quantile(0.99),
        written.processor_for_one.as_micros(),
        written.lists_per_second,
    );
    eprintln!(
        "  memory {:.1} MB before, {:.1} MB with them, {:.1} MB when each has been listed",
        memory_before as f64 / 1e6,
        memory_written as f64 / 1e6,
        memory_listed as f64 / 1e6,
    );
    Ok(written)
}

/// Runs an operation once per CRD and reports progress.
async fn each<F, Answer>(numbers: Range<usize>, lanes: usize, what: &'static str, f: F) -> anyhow::Result<Samples>
where
    F: Fn(usize, Definition) -> Answer + Clone + Send + 'static,
    Answer: Future<Output = anyhow::Result<u64>> + Send,
{
    let count = numbers.len();
    let progress = Arc::new(Progress::new(count, what));
    let plan = Plan { requests: count, lanes, at_least: Duration::ZERO };
    phase::run(plan, move |lane, number| {
        let (answer, progress) = (f(lane, Definition::numbered(numbers.start + number)), progress.clone());
        async move {
            let size = answer.await?;
            progress.step();
            Ok(size)
        }
    })
    .await
}
