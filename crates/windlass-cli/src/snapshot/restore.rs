//! `windlass snapshot restore`: a new data directory from a snapshot.

use std::path::PathBuf;

use clap::Args;
use windlass_plane::snapshot::{self, RestoreError, RestoringError};

use super::{Meter, file};
use crate::{data_dir::DataDirArgs, failure::ErrorWithHint};

/// Restore a snapshot into a new data directory
///
/// The next `windlass up` on the directory continues with the objects of the snapshot and issues new certificates; to
/// keep the old ones, copy `pki` from the old directory first. Resource versions never go back: the revision is that of
/// the snapshot plus --bump-revision, and watches that start from an earlier one get 410 Gone and list again.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Snapshot to restore
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Number to add to the revision; must exceed the number of writes since the snapshot
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    bump_revision: u64,
}

/// Restores a snapshot.
pub(super) fn run(args: &RestoreArgs) -> anyhow::Result<()> {
    let folder = args.data_dir.resolve()?;
    // Checks all of it before anything is created.
    let contents = file::read(&args.file, &mut Meter::new("checked"))?;
    contents.warn();
    let mut meter = Meter::new("restored");
    let source = file::open(&args.file)?;
    let restored = snapshot::restore(&folder, source, args.bump_revision, &mut |bytes| meter.at(bytes));
    let revision = restored.map_err(|error| match error {
        RestoringError::Restore(RestoreError::Exists { path }) => ErrorWithHint {
            message: format!("{} exists already", path.display()),
            hint: "choose a new directory with --data-dir, or delete this one with `windlass down --delete-data`"
                .into(),
        }
        .into(),
        RestoringError::Restore(RestoreError::Snapshot(error)) => file::damaged(&args.file, &error),
        RestoringError::Restore(RestoreError::Revision { .. }) => {
            ErrorWithHint { message: error.to_string(), hint: "choose a smaller --bump-revision".into() }.into()
        }
        RestoringError::DataDir(error) => anyhow::Error::new(error),
        RestoringError::Restore(error) => anyhow::Error::new(error),
    })?;
    let (objects, speed) = (contents.objects, meter.done(contents.bytes));
    eprintln!("restored {objects} objects to {} ({speed}); revision {revision}", folder.display());
    eprintln!("start it with `windlass up{}`", args.data_dir.option());
    Ok(())
}
