//! Measures how long a store takes to open after a crash: `cargo run --release -p windlass-store --example recovery`.
//!
//! Arguments, all optional: size of the store in MiB (1024), bytes per value (1800), directory (the system's temporary
//! directory). The program starts itself again to fill the store, and that process ends without closing it.

#![allow(clippy::print_stdout, reason = "prints its results to the terminal")]

use std::{env, error::Error, path::PathBuf, process::Command, str::FromStr, sync::Arc, time::Instant};

use bytes::Bytes;
use tokio::task::JoinSet;
use windlass_store::{EmbeddedStore, Store};

/// Environment variable that names the file to fill.
const FILL: &str = "WINDLASS_RECOVERY_FILL";

/// Number of concurrent writers while the store is filled.
const WRITERS: usize = 256;

fn argument<T: FromStr>(index: usize, default: T) -> T {
    env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let size: usize = argument(1, 1024) << 20;
    let value: usize = argument(2, 1800);
    if let Some(path) = env::var_os(FILL) {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&path)?);
        fill(&store, size / value, value).await?;
        // Ends without closing the store, as after a crash.
        std::process::exit(0);
    }
    let path: PathBuf = argument(3, env::temp_dir()).join(format!("recovery-{}.redb", std::process::id()));
    let start = Instant::now();
    let filled = Command::new(env::current_exe()?).args(env::args().skip(1)).env(FILL, &path).status()?;
    println!(
        "filled in {:.1} s ({filled}): {} MiB",
        start.elapsed().as_secs_f64(),
        std::fs::metadata(&path)?.len() >> 20
    );
    for round in ["after a crash", "after a clean shutdown"] {
        let start = Instant::now();
        let store = EmbeddedStore::open(&path)?;
        println!("opened {round} in {:.2} s", start.elapsed().as_secs_f64());
        println!("revision {}", store.revision().await?);
    }
    std::fs::remove_file(&path)?;
    Ok(())
}

async fn fill(store: &Arc<dyn Store>, count: usize, value: usize) -> Result<(), windlass_store::Error> {
    let value = Bytes::from(vec![b'x'; value]);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, value) = (store.clone(), value.clone());
        writers.spawn(async move {
            for number in (writer..count).step_by(WRITERS) {
                store.create(&format!("/core/configmaps/namespace-{writer}/object-{number}"), value.clone()).await?;
            }
            Ok(())
        });
    }
    while let Some(result) = writers.join_next().await {
        result.unwrap_or(Ok(()))?;
    }
    Ok(())
}
