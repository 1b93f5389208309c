//! The windlass program and the target directory.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// Returns the target directory of the workspace.
pub fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench must be in the workspace");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

/// Builds windlass in release mode and returns its path.
pub fn build_windlass() -> anyhow::Result<PathBuf> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--package", "windlass-cli"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "failed to build windlass; use --windlass FILE for a program that is already built");
    Ok(target().join("release").join("windlass"))
}
