//! `windlass store migrate`: copies all objects to another store.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use windlass_plane::migration::{self, Location, Migrated, MigrationError, MigrationOptions, Progress};

use super::location::{LocationArg, Named, next_step};
use crate::{
    etcd::EtcdArgs,
    failure::ErrorWithHint,
    output::{self, Format},
    threads,
};

/// Interval at which progress is printed.
const PROGRESS: Duration = Duration::from_secs(2);
/// Number that is added to the revision of a snapshot unless another is given, as by `windlass snapshot restore`.
const SNAPSHOT_BUMP: u64 = 1_000_000_000;
/// The largest request that etcd accepts by default.
const ETCD_REQUEST: u64 = 1536 << 10;

/// Copy all objects to another store: embedded, a snapshot or etcd
///
/// No control plane may use either store. The source is not changed; the target must not exist or must be empty, and can
/// be used when all objects are there and have been compared with the source. A migration that was interrupted can be
/// started again.
///
/// UIDs stay the same, and resource versions never go back: watches that start from an earlier one get 410 Gone and list
/// again.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Store to copy from: embedded[:DIR] (a data directory), snapshot:FILE or etcd
    #[arg(long, value_name = "STORE")]
    from: LocationArg,
    /// Store to copy to: embedded[:DIR] (a data directory), snapshot:FILE or etcd
    #[arg(long, value_name = "STORE")]
    to: LocationArg,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Number to add to the revision; must exceed the number of writes since a snapshot [default: 1000000000 from a
    /// snapshot, otherwise 0]
    #[arg(long, value_name = "N")]
    bump_revision: Option<u64>,
    /// Read the source and check the target, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What was copied, or would be.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    objects: u64,
    /// Size of all keys and objects.
    bytes: u64,
    /// Size of the largest object.
    largest_bytes: u64,
    checksum: String,
    /// Revision at which the target starts; that in etcd is known only afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
}

/// Copies the objects.
pub(super) fn run(args: &MigrateArgs) -> anyhow::Result<()> {
    check(args)?;
    let (from, to) = (args.from.resolve(&args.etcd)?, args.to.resolve(&args.etcd)?);
    let usual = if matches!(from, Location::Snapshot(_)) { SNAPSHOT_BUMP } else { 0 };
    let bump = args.bump_revision.unwrap_or(usual);
    let options = MigrationOptions { from, to, bump, dry_run: args.dry_run };
    let mut meter = Meter::new();
    let migrated = threads::block_on(async {
        migration::migrate(&options, &mut |progress| meter.at(&progress)).await.map_err(advised)
    })?;
    let seconds = meter.start.elapsed().as_secs_f64();
    let summary = summary(&options, &migrated);
    output::print(&args.output.text(&summary, || table(&summary))?)?;
    let is_to_etcd = matches!(options.to, Location::Etcd(_));
    if is_to_etcd && migrated.largest > ETCD_REQUEST - (64 << 10) {
        let largest = output::bytes(migrated.largest);
        eprintln!(
            "warning: the largest object has {largest}; etcd accepts requests of 1.5 MiB unless --max-request-bytes is raised"
        );
    }
    let (from, to) = (Named(&options.from), Named(&options.to));
    if args.dry_run {
        eprintln!("{} objects would be copied from {from} to {to}; nothing was changed", migrated.objects.entries);
        return Ok(());
    }
    eprintln!("copied {} objects from {from} to {to} in {seconds:.1} s, and compared them", migrated.objects.entries);
    if migrated.keys {
        eprintln!("copied the certificate authorities and keys as well");
    }
    eprintln!("{}", next_step(&options.from, &options.to, migrated.keys));
    eprintln!(
        "do not start a control plane on {from} any more: its clients would see other objects at the same revisions"
    );
    Ok(())
}

/// Rejects combinations that make no sense.
fn check(args: &MigrateArgs) -> anyhow::Result<()> {
    use LocationArg::{Etcd, Snapshot};
    let error = |message: &str, hint: &'static str| {
        Err(ErrorWithHint { message: message.to_owned(), hint: hint.into() }.into())
    };
    match (&args.from, &args.to) {
        (Snapshot(_), Snapshot(_)) => {
            error("both stores are snapshots", "copy the file, and check the copy with `windlass snapshot verify`")
        }
        (Etcd, Etcd) => error(
            "both stores are in etcd",
            "migrate to a snapshot first, and then from the snapshot to the other etcd",
        ),
        (from, to) if *from != Etcd && *to != Etcd => match args.etcd.given() {
            Some(flag) => error(&format!("{flag} has no effect"), "write --from etcd or --to etcd, or remove the flag"),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn advised(error: MigrationError) -> anyhow::Error {
    match (error.hint(), error) {
        (_, MigrationError::Plane(error)) => error.into(),
        (Some(hint), error) => ErrorWithHint { message: error.to_string(), hint: hint.into() }.into(),
        (None, error) => error.into(),
    }
}

fn summary(options: &MigrationOptions, migrated: &Migrated) -> Summary {
    let is_known = !options.dry_run || !matches!(options.to, Location::Etcd(_));
    Summary {
        objects: migrated.objects.entries,
        bytes: migrated.objects.bytes,
        largest_bytes: migrated.largest,
        checksum: format!("{:016x}", migrated.objects.checksum),
        revision: is_known.then_some(migrated.revision.0),
    }
}

fn table(summary: &Summary) -> String {
    let Summary { objects, bytes, largest_bytes, checksum, revision } = summary;
    let (size, largest) = (output::bytes(*bytes), output::bytes(*largest_bytes));
    let mut table =
        format!("objects      {objects}\nsize         {size}\nlargest      {largest}\nchecksum     {checksum}\n");
    if let Some(revision) = revision {
        table += &format!("revision     {revision}\n");
    }
    table
}

/// Prints progress now and then.
struct Meter {
    start: Instant,
    printed: Instant,
}

impl Meter {
    fn new() -> Self {
        let start = Instant::now();
        Self { start, printed: start }
    }

    fn at(&mut self, progress: &Progress) {
        match progress {
            Progress::Watching(time) => {
                eprintln!("checking for {} s whether an API server is using the objects in etcd", time.as_secs());
            }
            Progress::Copied(copied, all) if self.printed.elapsed() >= PROGRESS => {
                self.printed = Instant::now();
                let (entries, size) = (copied.entries, output::bytes(copied.bytes));
                eprintln!("copied: {entries} of {all} objects, {size} ({} s)", self.start.elapsed().as_secs());
            }
            Progress::Copied(..) | Progress::Compared => {}
            Progress::Comparing => {
                if self.start.elapsed() >= PROGRESS {
                    eprintln!("comparing ({} s)", self.start.elapsed().as_secs());
                }
            }
        }
    }
}
