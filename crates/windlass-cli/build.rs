//! Records where this crate is compiled from, so that `windlass init` can make projects depend on the same source.
//! `src/project/origin.rs` interprets these facts; `CARGO_MANIFEST_DIR` is the third one.
//!
//! Also packs the relocations of release builds, if linker and C library support it. They take 1.7 MB otherwise, in the
//! file and in memory, because the dynamic loader reads all of them.

#![allow(clippy::print_stdout, reason = "build scripts talk to cargo on standard output")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const PACKED_RELOCATIONS: &str = "-Wl,-z,pack-relative-relocs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if can_pack_relocations() {
        println!("cargo::rustc-link-arg-bins={PACKED_RELOCATIONS}");
    }
    record_origin();
}

fn record_origin() {
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

/// Links an empty program with packed relocations and runs it.
fn can_pack_relocations() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let native = env::var_os("HOST") == env::var_os("TARGET") && env::var_os("RUSTC_LINKER").is_none();
    if !(native && is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu"))
    {
        return false;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let (source, program) = (folder.join("empty.rs"), folder.join("empty"));
    let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    fs::write(&source, "fn main() {}").is_ok()
        && succeeds(
            Command::new(env::var_os("RUSTC").unwrap_or_default())
                .arg(&source)
                .args(["-C", &format!("link-arg={PACKED_RELOCATIONS}"), "-o"])
                .arg(&program),
        )
        && succeeds(&mut Command::new(&program))
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
