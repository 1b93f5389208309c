//! Records where this crate is compiled from, so that `windlass init` can make projects depend on the same source.
//! `src/project/origin.rs` interprets these facts; `CARGO_MANIFEST_DIR` is the third one.
//!
//! Also makes release builds smaller, in the file and in memory, as far as linker and C library support it.

#![allow(clippy::print_stdout, reason = "build scripts talk to cargo on standard output")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Relocations take 1.7 MB otherwise, in the file and in memory, because the dynamic loader reads all of them.
const PACKED_RELOCATIONS: &str = "-Wl,-z,pack-relative-relocs";
/// Keeps one of several functions with the same machine code. Rust does not guarantee that functions have different
/// addresses, and merges some of them itself; the C code of dependencies does not compare addresses of functions.
const IDENTICAL_CODE_FOLDING: &str = "-Wl,--icf=all";
/// Prefixes of the functions that run when a server starts; `cargo xtask startup` measures them.
const STARTUP: &str = include_str!("startup.txt");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=startup.txt");
    if is_native_release() {
        let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
        let script = folder.join("startup.ld");
        let order = fs::write(&script, startup_script()).ok().map(|()| format!("-Wl,-T,{}", script.display()));
        let arguments = [Some(PACKED_RELOCATIONS.to_owned()), Some(IDENTICAL_CODE_FOLDING.to_owned()), order];
        for argument in arguments.into_iter().flatten().filter(|argument| can_link(&folder, argument)) {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
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

fn is_native_release() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let native = env::var_os("HOST") == env::var_os("TARGET") && env::var_os("RUSTC_LINKER").is_none();
    native && is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu")
}

/// Links an empty program with an argument for the linker and runs it.
fn can_link(folder: &Path, argument: &str) -> bool {
    let (source, program) = (folder.join("empty.rs"), folder.join("empty"));
    let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    fs::write(&source, "fn main() {}").is_ok()
        && succeeds(
            Command::new(env::var_os("RUSTC").unwrap_or_default())
                .arg(&source)
                .args(["-C", &format!("link-arg={argument}"), "-o"])
                .arg(&program),
        )
        && succeeds(&mut Command::new(&program))
}

/// Returns a linker script that places the code of a running server before all other code. Every function has a section
/// of its own, which is named after it; names that match nothing have no effect.
fn startup_script() -> String {
    // The standard library, and functions that are rarely called but by everything, such as growing a vector.
    let mut patterns: Vec<String> = ["_R*", "unlikely.*"].map(str::to_owned).into();
    patterns.extend(STARTUP.lines().filter(|line| !line.starts_with('#')).flat_map(patterns_of));
    let sections: String = patterns.iter().map(|pattern| format!("    *(.text.{pattern})\n")).collect();
    format!("SECTIONS {{\n  .text.running : {{\n{sections}  }}\n}}\nINSERT BEFORE .text;\n")
}

/// Returns patterns for the symbols of functions whose paths begin with `prefix`.
fn patterns_of(prefix: &str) -> Vec<String> {
    let (modules, last) = prefix.rsplit_once("::").unwrap_or(("", prefix));
    let modules: String = modules.split("::").filter(|module| !module.is_empty()).map(component).collect();
    if last.chars().all(|character| character.is_alphanumeric() || character == '_') {
        return vec![format!("_ZN{modules}{}*", component(last))];
    }
    // The length of an incomplete name is unknown.
    let last = symbol(last);
    ["[0-9][0-9]", "[0-9][0-9][0-9]"].map(|length| format!("_ZN{modules}{length}{last}*")).into()
}

/// Returns a part of a path with its length, as it is written in symbols.
fn component(name: &str) -> String {
    let name = symbol(name);
    format!("{}{name}", name.len())
}

/// Returns a part of a path, as it is written in symbols.
fn symbol(name: &str) -> String {
    let escapes = [
        ("<", "$LT$"),
        (">", "$GT$"),
        ("&", "$RF$"),
        ("*", "$BP$"),
        (",", "$C$"),
        ("(", "$LP$"),
        (")", "$RP$"),
        (" ", "$u20$"),
        ("\"", "$u22$"),
        ("'", "$u27$"),
        ("+", "$u2b$"),
        (";", "$u3b$"),
        ("=", "$u3d$"),
        ("[", "$u5b$"),
        ("]", "$u5d$"),
        ("{", "$u7b$"),
        ("}", "$u7d$"),
        ("~", "$u7e$"),
    ];
    let name = escapes.into_iter().fold(name.to_owned(), |name, (character, escape)| name.replace(character, escape));
    if name.starts_with('$') { format!("_{name}") } else { name }
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
