//! `windlass snapshot verify`: checks all of a snapshot.

use std::path::PathBuf;

use clap::Args;

use super::{Meter, file};
use crate::{
    failure::ErrorWithHint,
    output::{self, Format},
};

/// Check that a snapshot is complete and undamaged
///
/// Reads the whole file: the framing, the checksum of every record, and every object.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Snapshot to check
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Checks a snapshot, and prints what it contains.
pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    let mut meter = Meter::new("checked");
    let contents = file::read(&args.file, &mut meter)?;
    let speed = meter.done(contents.bytes);
    let table = || {
        let size = output::bytes(contents.bytes);
        format!("revision     {}\nobjects      {}\nsize         {size}\n", contents.revision, contents.objects)
    };
    output::print(&args.output.text(&contents, table)?)?;
    contents.warn();
    if !contents.damaged_objects.is_empty() {
        return Err(ErrorWithHint {
            message: format!("{} has objects that cannot be parsed", args.file.display()),
            hint: "restore it, delete these objects, and save another snapshot".into(),
        }
        .into());
    }
    eprintln!("{} is intact ({speed})", args.file.display());
    Ok(())
}
