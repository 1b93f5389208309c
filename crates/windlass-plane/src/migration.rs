//! Copying the objects of a control plane to another store.
//!
//! The objects are copied byte by byte, so their UIDs stay the same. The new store starts at the revision of the old one, or
//! later, and counts everything before as compacted: no resource version is issued twice, and watches and pages that began
//! before have to list again. Objects that are copied to or from etcd get new revisions, because etcd assigns its own.
//!
//! The source is not changed. The target is read back and compared with the source before it becomes usable, which is one
//! rename of a file, or one write in etcd: a migration that is interrupted at any moment can be started again.

mod error;
mod source;
mod target;

use std::{path::PathBuf, time::Duration};

use windlass_etcd::EtcdOptions;
use windlass_store::{Revision, embedded::bumped, snapshot::Digest};

pub use self::error::MigrationError;
use self::{
    source::Source,
    target::{Checked, Finished},
};
use crate::join;

/// Size of the objects that are copied at a time.
const PIECE: usize = 1 << 20;

/// A store that objects are copied from or to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// The embedded store in a data directory.
    Embedded(PathBuf),
    /// A snapshot.
    Snapshot(PathBuf),
    /// etcd.
    Etcd(EtcdOptions),
}

/// Options of a migration.
#[derive(Debug, Clone)]
pub struct MigrationOptions {
    /// The store to copy from, which no control plane may use.
    pub from: Location,
    /// The store to copy to, which must not exist, or be empty.
    pub to: Location,
    /// Number to add to the revision. Must exceed the number of writes since a snapshot.
    pub bump: u64,
    /// Whether to change nothing: only the source is read, and the target is checked.
    pub dry_run: bool,
}

/// Progress of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// etcd is watched for this time, to find out whether an API server is running.
    Watching(Duration),
    /// This part of the objects has been copied; and the number of all objects.
    Copied(Digest, u64),
    /// The copy is being compared with the source.
    Comparing,
    /// The copy is the same as the source, and becomes usable next.
    Compared,
}

/// Result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The revision at which the target starts.
    pub revision: Revision,
    /// The objects.
    pub objects: Digest,
    /// Size of the largest object.
    pub largest: u64,
    /// Whether the keys and certificate authorities of the data directory were copied, too.
    pub keys: bool,
}

/// Copies all objects to another store. Blocks the thread while it reads and writes files.
pub async fn migrate(
    options: &MigrationOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Migrated, MigrationError> {
    let checked = Checked::open(&options.to).await?;
    let mut source = Source::open(&options.from, progress).await?;
    let revision = bumped(source.revision(), options.bump)?;
    let mut target = match options.dry_run {
        true => None,
        false => Some(checked.begin(revision, source.count()).await?),
    };
    // Before the objects, so that nothing is copied if the directory has the keys of another control plane.
    let keys = target.is_some() && copy_keys(options)?;
    let mut migrated = Migrated { revision, objects: Digest::default(), largest: 0, keys };
    loop {
        let entries = source.next().await?;
        if entries.is_empty() {
            break;
        }
        for entry in &entries {
            migrated.objects.add(entry);
            migrated.largest = migrated.largest.max(entry.value.len() as u64);
        }
        if let Some(target) = &mut target {
            target.write(entries).await?;
        }
        progress(Progress::Copied(migrated.objects, source.count()));
    }
    source.check_unchanged(migrated.objects).await?;
    if let Some(target) = target {
        progress(Progress::Comparing);
        let finished: Finished = target.finish(revision)?;
        let found = finished.read_back().await?;
        if found != migrated.objects {
            return Err(MigrationError::Differs { expected: migrated.objects, found });
        }
        progress(Progress::Compared);
        migrated.revision = finished.complete().await?;
    }
    Ok(migrated)
}

/// Copies the keys and authorities from one data directory to another, if there are any, so that tokens and certificates stay
/// valid.
fn copy_keys(options: &MigrationOptions) -> Result<bool, MigrationError> {
    let (Location::Embedded(from), Location::Embedded(to)) = (&options.from, &options.to) else { return Ok(false) };
    Ok(join::copy(from, to)?)
}
