//! Cargo, called by a program that cargo has started, and what it builds.

use std::{ffi::OsString, path::PathBuf, process::Command};

use anyhow::{Context as _, ensure};

use crate::peers;

/// The cargo that has started this program.
pub(crate) fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Keeps to this program what cargo tells it about itself: build scripts would run anew because of it, and after that of
/// ring most of what there is would be compiled anew.
pub(crate) fn forget(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// Builds a program of the workspace, and says where it is.
pub(crate) fn build(package: &str, name: &str) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(program());
    command.args(["build", "--quiet", "--package", package]).current_dir(env!("CARGO_MANIFEST_DIR"));
    ensure!(forget(&mut command).status().context("cannot run cargo")?.success(), "{package} does not build");
    Ok(std::path::absolute(peers::target())?.join("debug").join(name))
}

/// The windlass program, built.
pub(crate) fn windlass() -> anyhow::Result<PathBuf> {
    build("windlass-cli", "windlass")
}
