//! Source files: length, module names, unfinished work and forbidden imports.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use super::{dependencies::PURE, files};

/// Longer files must be split, or listed with a reason in the exceptions.
const LONGEST: usize = 500;
/// One `file: reason` per line.
const EXCEPTIONS: &str = "xtask/tidy-allow.txt";
/// Directories with our sources.
const FOLDERS: &[&str] = &["crates", "operators", "bench", "docs", "xtask"];
/// Names that do not describe the contents.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];
/// Unfinished work, spelled so that this file does not match itself.
const UNFINISHED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];
/// The disk, the network and other processes, for pure crates. Addresses are plain values and allowed.
const IMPURE: &[&str] = &["std::fs", "std::process", "fs::{", "TcpListener", "TcpStream", "ToSocketAddrs", "UdpSocket"];
/// Concrete stores, for the API server, which knows only the trait.
const STORES: &[&str] = &["MemoryStore", "EmbeddedStore", "windlass_store::memory", "windlass_store::embedded"];

/// Checks all Rust files of the repository.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut exceptions = exceptions(&root.join(EXCEPTIONS))?;
    let mut complaints = Vec::new();
    let is_rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    for path in files(root, FOLDERS, is_rust)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let path = path.strip_prefix(root).unwrap_or(&path);
        let excepted = exceptions.remove(path);
        complaints.extend(of_file(path, &text, excepted.is_some()));
    }
    complaints.extend(exceptions.keys().map(|path| format!("{EXCEPTIONS}: {} does not exist", path.display())));
    Ok(complaints)
}

fn of_file(path: &Path, text: &str, excepted: bool) -> Vec<String> {
    let name = path.display();
    let mut complaints = Vec::new();
    let lines = text.lines().count();
    match (lines > LONGEST, excepted) {
        (true, false) => complaints.push(format!("{name}: {lines} lines, split it (at most {LONGEST})")),
        (false, true) => complaints.push(format!("{name}: {lines} lines, remove it from {EXCEPTIONS}")),
        _ => {}
    }
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if stem == "mod" {
        complaints.push(format!("{name}: `foo.rs` beside `foo/`, no mod.rs"));
    }
    if EMPTY_NAMES.contains(&stem) {
        complaints.push(format!("{name}: name it after its contents"));
    }
    // Generated projects tell their authors where to continue.
    let generated = path.iter().any(|part| part == "testdata");
    for (number, line) in text.lines().enumerate().filter(|_| !generated) {
        if let Some(word) = UNFINISHED.iter().find(|word| line.contains(**word)) {
            complaints.push(format!("{name}:{}: {word} is left", number + 1));
        }
    }
    if !is_test(path) {
        complaints.extend(of_shipped_code(path, text));
    }
    complaints
}

/// Rules for shipped code, except for tests.
fn of_shipped_code(path: &Path, text: &str) -> Vec<String> {
    let name = path.display();
    let within = |package: &str| path.starts_with(Path::new("crates").join(package).join("src"));
    let pure = PURE.iter().any(|package| within(package));
    let server = within("windlass-apiserver");
    let mut complaints = Vec::new();
    if !text.trim_start().starts_with("//!") {
        complaints.push(format!("{name}: must start with a `//!` line that says what the module is for"));
    }
    for (number, line) in text.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]") {
        if line.trim_start().starts_with("//") {
            continue;
        }
        if let Some(word) = IMPURE.iter().find(|word| pure && line.contains(**word)) {
            complaints.push(format!("{name}:{}: {word} in a crate that touches neither disk nor network", number + 1));
        }
        if let Some(word) = STORES.iter().find(|word| server && line.contains(**word)) {
            complaints.push(format!("{name}:{}: {word}: the API server names no concrete store", number + 1));
        }
    }
    complaints
}

fn is_test(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "tests") || path.iter().any(|part| part == "tests" || part == "benches")
}

fn exceptions(path: &Path) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut exceptions = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(": ") {
            Some((file, reason)) if !reason.trim().is_empty() => exceptions.insert(file.into(), reason.into()),
            _ => bail!("{EXCEPTIONS}: {line:?} is not `path: reason`"),
        };
    }
    Ok(exceptions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn complaints(path: &str, text: &str) -> Vec<String> {
        of_file(Path::new(path), text, false)
    }

    #[test]
    fn a_long_file_is_found_unless_it_has_a_reason() {
        let text = "//! x\n".repeat(LONGEST + 1);
        assert_eq!(complaints("crates/a/src/a.rs", &text), ["crates/a/src/a.rs: 501 lines, split it (at most 500)"]);
        assert_eq!(of_file(Path::new("crates/a/src/a.rs"), &text, true), Vec::<String>::new());
        let outdated = of_file(Path::new("crates/a/src/a.rs"), "//! x\n", true);
        assert_eq!(outdated, ["crates/a/src/a.rs: 1 lines, remove it from xtask/tidy-allow.txt"]);
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        assert_eq!(complaints("crates/a/src/b/mod.rs", "//! x").len(), 1);
        assert_eq!(complaints("crates/a/src/utils.rs", "//! x").len(), 1);
        assert_eq!(complaints("crates/a/src/useful.rs", "//! x"), Vec::<String>::new());
    }

    #[test]
    fn a_module_that_does_not_say_what_it_is_for_is_found() {
        let path = "crates/a/src/a.rs";
        assert_eq!(
            complaints(path, "use b;"),
            ["crates/a/src/a.rs: must start with a `//!` line that says what the module is for"]
        );
        assert_eq!(complaints("crates/a/src/a/tests.rs", "use b;"), Vec::<String>::new());
    }

    #[test]
    fn unfinished_work_is_found_with_its_line() {
        let text = format!("//! x\n// {}: y\n", UNFINISHED[0]);
        assert_eq!(complaints("crates/a/src/a.rs", &text), [format!("crates/a/src/a.rs:2: {} is left", UNFINISHED[0])]);
        assert_eq!(complaints("crates/a/testdata/b/src/a.rs", &text), Vec::<String>::new());
    }

    #[test]
    fn the_disk_in_a_pure_crate_and_a_concrete_store_in_the_server_are_found_outside_tests() {
        for (path, line) in [
            ("crates/windlass-schema/src/a.rs", "use std::fs;"),
            ("crates/windlass-apiserver/src/a.rs", "use windlass_store::memory::MemoryStore;"),
        ] {
            let line = &format!("//! x\n{line}");
            assert_eq!(complaints(path, line).len(), 1, "{path}");
            assert_eq!(
                complaints(path, &format!("//! x\n#[cfg(test)]\nmod tests {{\n{line}\n}}")),
                Vec::<String>::new()
            );
            assert_eq!(complaints(&path.replace("a.rs", "a/tests.rs"), line), Vec::<String>::new());
            assert_eq!(complaints("crates/windlass-plane/src/a.rs", line), Vec::<String>::new());
        }
    }
}
