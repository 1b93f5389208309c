//! Generates a module for each page of the book, the README and the READMEs of the crates, with the page as its
//! documentation, so that rustdoc tests the code blocks.
//!
//! Pages show code as it is in a project, so three things differ for rustdoc:
//!
//! - `crate::` is the operator of the tutorial, `crontab_operator`.
//! - Tests (`#[test]`, `#[tokio::test]`) are called by a `main`, so that they run, including those of a `mod tests`.
//! - The lines of a comment `<!-- hidden` before a block are hidden lines of it. In the book itself, lines that begin
//!   with `# ` are hidden; renderers of the README would show them.

#![allow(clippy::unwrap_used, reason = "a build script may fail")]

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let mut pages = vec![("readme".to_owned(), PathBuf::from("../README.md"))];
    find(Path::new("src"), "", &mut pages);
    for entry in fs::read_dir("../crates").unwrap() {
        let readme = entry.unwrap().path().join("README.md");
        let name = readme.parent().and_then(Path::file_name).unwrap().to_str().unwrap().replace('-', "_");
        println!("cargo::rerun-if-changed={}", readme.display());
        if readme.exists() {
            pages.push((format!("crate_{name}"), readme));
        }
    }
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=../README.md");
    let mut modules = String::new();
    for (name, path) in pages {
        let file = out.join(format!("{name}.md"));
        fs::write(&file, for_rustdoc(&fs::read_to_string(&path).unwrap())).unwrap();
        writeln!(modules, "#[doc = include_str!({file:?})]\nmod {name} {{}}").unwrap();
    }
    fs::write(out.join("pages.rs"), modules).unwrap();
}

fn find(folder: &Path, prefix: &str, pages: &mut Vec<(String, PathBuf)>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = format!("{prefix}{}", path.file_stem().unwrap().to_str().unwrap()).replace('-', "_").to_lowercase();
        if path.is_dir() {
            find(&path, &format!("{name}_"), pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push((name, path));
        }
    }
}

fn for_rustdoc(text: &str) -> String {
    let mut page = String::new();
    let mut hidden: Option<String> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "<!-- hidden" {
            let within = lines.by_ref().take_while(|line| *line != "-->");
            hidden = Some(within.map(|line| format!("# {line}\n")).collect());
            continue;
        }
        page.push_str(line);
        page.push('\n');
        if line.starts_with("```rust") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            page.push_str(&hidden.take().unwrap_or_default());
            page.push_str(&of_block(&block));
            page.push_str("```\n");
        }
    }
    page
}

/// Returns the block with a `main` that calls its tests.
fn of_block(lines: &[&str]) -> String {
    let mut block = String::new();
    let mut calls = String::new();
    let mut attribute = None;
    for line in lines {
        match (line.trim_start_matches("# ").trim_start(), attribute.take()) {
            ("#[cfg(test)]", _) => {}
            (test @ ("#[test]" | "#[tokio::test]"), _) => attribute = Some(test),
            (function, Some(test)) => {
                let name = function.split_once("fn ").unwrap().1.split('(').next().unwrap();
                let waits = if test == "#[tokio::test]" { ".await" } else { "" };
                if line.starts_with(' ') {
                    write!(calls, "tests::{name}(){waits}; ").unwrap();
                    writeln!(block, "pub {}", line.trim_start()).unwrap();
                } else {
                    write!(calls, "{name}(){waits}; ").unwrap();
                    writeln!(block, "{line}").unwrap();
                }
            }
            _ => writeln!(block, "{}", line.replace("crate::", "crontab_operator::")).unwrap(),
        }
    }
    if !calls.is_empty() {
        let runtime = "tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()";
        writeln!(block, "# fn main() {{ {runtime}.block_on(async {{ {calls}}}); }}").unwrap();
    }
    block
}
