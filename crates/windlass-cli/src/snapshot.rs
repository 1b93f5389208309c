//! `windlass snapshot`: backups of the objects of a control plane.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::output;

mod file;
mod restore;
mod save;
mod verify;

/// Interval at which progress is printed.
const PROGRESS: Duration = Duration::from_secs(2);

/// Save, restore and verify the objects of a control plane
///
/// A snapshot contains all objects at one revision. It contains Secrets, but not the certificates and keys of the data
/// directory.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    Save(save::SaveArgs),
    Restore(restore::RestoreArgs),
    Verify(verify::VerifyArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: SnapshotArgs) -> anyhow::Result<()> {
    match args.command {
        SnapshotCommand::Save(args) => save::run(&args),
        SnapshotCommand::Restore(args) => restore::run(&args),
        SnapshotCommand::Verify(args) => verify::run(&args),
    }
}

/// Contents of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Contents {
    /// Revision of the objects.
    revision: u64,
    /// Number of objects.
    objects: u64,
    /// Size of the file.
    bytes: u64,
    /// Objects that cannot be parsed. They are damaged in the store as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged_objects: Vec<String>,
}

impl Contents {
    /// Prints a warning for every object that cannot be parsed.
    fn warn(&self) {
        for object in &self.damaged_objects {
            eprintln!("warning: object {object} cannot be parsed");
        }
    }
}

/// Prints progress now and then, and the speed at the end.
struct Meter {
    what: &'static str,
    start: Instant,
    told: Instant,
}

impl Meter {
    fn new(what: &'static str) -> Self {
        let start = Instant::now();
        Self { what, start, told: start }
    }

    fn at(&mut self, bytes: u64) {
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            eprintln!("{}: {} ({} s)", self.what, output::bytes(bytes), self.start.elapsed().as_secs());
        }
    }

    /// Returns `12 MB in 0.3 s, 40 MB/s`.
    fn done(&self, bytes: u64) -> String {
        let seconds = self.start.elapsed().as_secs_f64();
        let speed = (bytes as f64 / seconds.max(0.001)) as u64;
        format!("{} in {seconds:.1} s, {}/s", output::bytes(bytes), output::bytes(speed))
    }
}
