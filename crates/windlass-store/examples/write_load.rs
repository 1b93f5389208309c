//! Measures acknowledged, durable writes per second: `cargo run --release -p windlass-store --example write_load`.
//!
//! Arguments, all optional: number of writers (32), seconds per phase (3), bytes per value (1800), directory (the
//! system's temporary directory). Choose a directory on the disk to measure; an in-memory file system has no `fsync`.

#![allow(clippy::print_stdout, reason = "prints its results to the terminal")]

use std::{
    env,
    error::Error,
    path::PathBuf,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::task::JoinSet;
use windlass_store::{EmbeddedStore, ListOptions, Revision, Store};

fn argument<T: FromStr>(index: usize, default: T) -> T {
    env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let writers: usize = argument(1, 32);
    let time = Duration::from_secs_f64(argument(2, 3.0));
    let value = Bytes::from(vec![b'x'; argument(3, 1800)]);
    let path: PathBuf = argument(4, env::temp_dir()).join(format!("write_load-{}.redb", std::process::id()));

    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&path)?);
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for writer in 0..writers {
        let (store, value) = (store.clone(), value.clone());
        tasks.spawn(async move {
            let mut keys: Vec<(String, Revision)> = Vec::new();
            while start.elapsed() < time {
                let key = format!("/apps/deployments/namespace-{writer}/web-{}", keys.len());
                let revision = store.create(&key, value.clone()).await?;
                keys.push((key, revision));
            }
            Ok::<_, windlass_store::Error>(keys)
        });
    }
    let mut written = Vec::new();
    while let Some(keys) = tasks.join_next().await {
        written.push(keys??);
    }
    report("created", written.iter().map(Vec::len).sum(), start);

    let start = Instant::now();
    for keys in written {
        let (store, value) = (store.clone(), value.clone());
        tasks.spawn(async move {
            let mut keys = keys;
            for (key, revision) in keys.iter_mut().take_while(|_| start.elapsed() < time) {
                *revision = store.update(key, *revision, value.clone()).await?;
            }
            Ok(keys)
        });
    }
    let mut updated = 0;
    let newest = store.revision().await?;
    while let Some(keys) = tasks.join_next().await {
        updated += keys??.iter().filter(|(_, revision)| *revision > newest).count();
    }
    report("updated", updated, start);

    let start = Instant::now();
    let compacted = store.revision().await?;
    store.compact(compacted).await?;
    report("swept", usize::try_from(compacted.0)?, start);

    drop(store);
    println!("file: {} MiB", std::fs::metadata(&path)?.len() >> 20);
    let start = Instant::now();
    let store = EmbeddedStore::open(&path)?;
    println!("opened in {:?}", start.elapsed());
    let start = Instant::now();
    report("listed", store.list(ListOptions::default()).await?.entries.len(), start);
    drop(store);
    std::fs::remove_file(&path)?;
    Ok(())
}

fn report(what: &str, count: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{what} {count} in {seconds:.3} s: {:.0} /s", count as f64 / seconds);
}
