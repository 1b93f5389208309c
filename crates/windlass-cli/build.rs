//! Records where this crate is compiled from, so that `windlass init` can make projects depend on the same source.
//!
//! `src/project/origin.rs` interprets these facts; `CARGO_MANIFEST_DIR` is the third one.

#![allow(clippy::print_stdout, reason = "build scripts talk to cargo on standard output")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // Cargo adds this file when it packages a crate for a registry.
    if package.join(".cargo_vcs_info.json").is_file() {
        println!("cargo::rustc-env=WINDLASS_BUILD_PACKAGED=1");
    }
    // `cargo install --git` checks out to CARGO_HOME/git/checkouts/NAME-HASH/SHORT-COMMIT and fetches into
    // CARGO_HOME/git/db/NAME-HASH.
    let Some(checkouts) = package.ancestors().find(|folder| folder.ends_with("git/checkouts")) else { return };
    if let Some(commit) = head_commit(&package) {
        println!("cargo::rustc-env=WINDLASS_BUILD_COMMIT={commit}");
    }
    let name = package.strip_prefix(checkouts).ok().and_then(|rest| rest.components().next());
    let fetched = name.map(|name| checkouts.with_file_name("db").join(name).join("FETCH_HEAD"));
    if let Some(url) = fetched.and_then(|file| fetched_url(&file)) {
        println!("cargo::rustc-env=WINDLASS_BUILD_REPOSITORY={url}");
    }
}

fn head_commit(folder: &Path) -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(folder).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}

/// Returns the URL at the end of the first line: `COMMIT<tab><tab>[branch 'main' of ]URL`.
fn fetched_url(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().next()?.split_whitespace().last().filter(|url| url.contains("://")).map(str::to_owned)
}
