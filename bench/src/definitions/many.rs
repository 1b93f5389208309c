//! Many definitions: how fast they are written, how fast each is listed for the first time, and what they weigh.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    client::Client,
    definition::Definition,
    phase::{self, Plan, Samples},
    report::thousands,
    servers::Running,
};

/// How often the progress of a long phase is told.
const STEPS: usize = 10;

/// What was measured.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) count: usize,
    /// Definitions acknowledged in a second.
    pub(super) writes_per_second: f64,
    /// First lists of a definition's instances in a second, the wait for it to be served included.
    pub(super) lists_per_second: f64,
    /// Resident memory before, when all are written, and when each has been listed. The server is idle each time.
    pub(super) memory_before: u64,
    pub(super) memory_written: u64,
    pub(super) memory_listed: u64,
}

impl Written {
    pub(super) fn to_json(&self) -> Value {
        json!({"definitions": self.count, "writesPerSecond": self.writes_per_second,
            "firstListsPerSecond": self.lists_per_second, "memoryBytesBefore": self.memory_before,
            "memoryBytesWritten": self.memory_written, "memoryBytesListed": self.memory_listed})
    }
}

/// Writes the definitions of these numbers, then lists the instances of each.
pub(super) async fn write(
    server: &Running,
    client: &Client,
    numbers: Range<usize>,
    lanes: usize,
) -> anyhow::Result<Written> {
    let count = numbers.len();
    server.settle().await?;
    let memory_before = server.memory()?;

    let lane_client = client.clone();
    let writes = each(numbers.clone(), lanes, "written", move |lane, definition| {
        let client = lane_client.clone();
        async move { definition.create(&client, lane).await }
    })
    .await?;
    // What a server still has to do for those it has acknowledged is part of what they weigh.
    client.until_served(0, &Definition::numbered(numbers.end - 1).collection()).await?;
    server.settle().await?;
    let memory_written = server.memory()?;

    let lane_client = client.clone();
    let lists = each(numbers, lanes, "listed", move |lane, definition| {
        let client = lane_client.clone();
        async move { client.until_served(lane, &definition.collection()).await }
    })
    .await?;
    server.settle().await?;
    let memory_listed = server.memory()?;

    let written = Written {
        count,
        writes_per_second: writes.per_second(),
        lists_per_second: lists.per_second(),
        memory_before,
        memory_written,
        memory_listed,
    };
    eprintln!(
        "  {} definitions: {:.0} written /s (p99 {} us), {:.0} listed for the first time /s (p99 {} us)",
        thousands(count as u64),
        written.writes_per_second,
        writes.quantile(0.99),
        written.lists_per_second,
        lists.quantile(0.99),
    );
    eprintln!(
        "  memory {:.1} MB before, {:.1} MB with them, {:.1} MB when each has been listed",
        memory_before as f64 / 1e6,
        memory_written as f64 / 1e6,
        memory_listed as f64 / 1e6,
    );
    Ok(written)
}

/// Does something once for every definition, and tells how far it is.
async fn each<F, Answer>(numbers: Range<usize>, lanes: usize, what: &'static str, f: F) -> anyhow::Result<Samples>
where
    F: Fn(usize, Definition) -> Answer + Clone + Send + 'static,
    Answer: Future<Output = anyhow::Result<u64>> + Send,
{
    let (count, done) = (numbers.len(), Arc::new(AtomicUsize::new(0)));
    let step = count.div_ceil(STEPS);
    let plan = Plan { requests: count, lanes, at_least: Duration::ZERO };
    phase::run(plan, move |lane, number| {
        let (answer, done) = (f(lane, Definition::numbered(numbers.start + number)), done.clone());
        async move {
            let size = answer.await?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(step) {
                eprintln!("    {} of {} {what}", thousands(done as u64), thousands(count as u64));
            }
            Ok(size)
        }
    })
    .await
}
