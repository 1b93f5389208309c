//! Runs cargo from a program that cargo has started, and locates its output.

use std::{ffi::OsString, path::PathBuf, process::Command};

use anyhow::{Context as _, ensure};

use crate::peers;

/// Returns the cargo that started this program.
pub(crate) fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Removes the variables that cargo sets for this program: build scripts would rerun because of them, and a rerun of
/// ring's recompiles most of the workspace.
pub(crate) fn forget(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

/// Builds a program of the workspace and returns its path.
pub(crate) fn build(package: &str, name: &str) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(program());
    command.args(["build", "--quiet", "--package", package]).current_dir(env!("CARGO_MANIFEST_DIR"));
    ensure!(forget(&mut command).status().context("cannot run cargo")?.success(), "failed to build {package}");
    Ok(std::path::absolute(peers::target())?.join("debug").join(name))
}

/// Builds the windlass program and returns its path.
pub(crate) fn windlass() -> anyhow::Result<PathBuf> {
    build("windlass-cli", "windlass")
}
