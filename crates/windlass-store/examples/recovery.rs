//! Measures how long a store takes to open after a crash, and how fast it is saved to a snapshot and restored from it:
//! `cargo run --release -p windlass-store --example recovery`.
//!
//! Arguments, all optional: size of the store in MiB (1024), bytes per value (1800), directory (the system's temporary
//! directory). The program starts itself again to fill the store, and that process ends without closing it.

#![allow(clippy::print_stdout, reason = "prints its results to the terminal")]

use std::{
    env,
    error::Error,
    fs::File,
    io::{BufReader, Write as _},
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use tokio::task::JoinSet;
use windlass_store::{
    EmbeddedStore, Store,
    snapshot::{Decoder, Encoder},
};

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
        println!("opened {round} in {:.2} s: revision {}", start.elapsed().as_secs_f64(), store.revision().await?);
    }
    let (saved, restored) = (path.with_extension("snapshot"), path.with_extension("restored"));
    save(&path, &saved).await?;
    let start = Instant::now();
    EmbeddedStore::restore(&restored, BufReader::new(File::open(&saved)?), 1, &mut |_| ())?;
    report("restored", start, &saved)?;
    for path in [path, saved, restored] {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

async fn save(store: &Path, file: &Path) -> Result<(), Box<dyn Error>> {
    let store = EmbeddedStore::open(store)?;
    let start = Instant::now();
    let mut encoder = Encoder::new(store.snapshot().await?);
    let mut output = File::create(file)?;
    while let Some(piece) = encoder.next_piece()? {
        output.write_all(&piece)?;
    }
    output.sync_all()?;
    report("saved", start, file)?;
    let start = Instant::now();
    let mut decoder = Decoder::new(BufReader::new(File::open(file)?))?;
    while decoder.next_entry()?.is_some() {}
    report("verified", start, file)
}

fn report(what: &str, start: Instant, file: &Path) -> Result<(), Box<dyn Error>> {
    let (size, seconds) = (std::fs::metadata(file)?.len() as f64 / 1e6, start.elapsed().as_secs_f64());
    println!("{what} {size:.0} MB in {seconds:.2} s: {:.0} MB/s", size / seconds);
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
