//! `windlass join-file`: the keys of a control plane for further API servers.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use windlass_plane::PlaneError;

use crate::{data_dir::DataDirArgs, secret_file};

/// Write the keys that further API servers over the same etcd need to a file
///
/// The file has mode 0600 and contains private keys: the certificate authorities of the control plane, and the key of
/// service account tokens. Copy it over a secure channel, start the other API servers with `windlass up --join FILE`, and
/// delete it.
#[derive(Debug, Args)]
pub(crate) struct JoinFileArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// File to create
    file: PathBuf,
}

/// Writes the file.
pub(crate) fn run(args: JoinFileArgs) -> anyhow::Result<()> {
    let data_dir = args.data_dir.resolve()?;
    let text = windlass_plane::join_file(&data_dir).map_err(PlaneError::Join)?;
    secret_file::create(&args.file, &text).with_context(|| format!("failed to create {}", args.file.display()))?;
    eprintln!("start other API servers with --join {}; the file contains private keys", args.file.display());
    Ok(())
}
