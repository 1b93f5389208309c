//! Code in languages other than Rust is included from programs in `docs/examples`, which `cargo xtask e2e` runs.

use std::{fs, path::Path};

use windlass_book::page::{pages, root};

/// Programming languages. Blocks in other languages are commands, output or configuration.
const LANGUAGES: &[&str] = &["go", "java", "javascript", "python", "typescript"];

/// Returns the file and the anchor of an mdBook include.
fn included(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("{{#include ")?.strip_suffix("}}")?.rsplit_once(':')
}

/// Returns the number of lines between the anchors of a file.
fn shown(text: &str, anchor: &str) -> Option<usize> {
    let place = |word: &str| text.lines().position(|line| line.trim().ends_with(&format!(" {word}: {anchor}")));
    let (start, end) = (place("ANCHOR")?, place("ANCHOR_END")?);
    end.checked_sub(start + 1).filter(|lines| *lines > 0)
}

#[test]
fn code_in_other_languages_is_included_from_programs_that_are_run() {
    let mut count = 0;
    for page in pages() {
        for block in page.blocks() {
            let place = format!("{}:{}", page.name(), block.line);
            let is_program = LANGUAGES.contains(&block.language());
            if !is_program {
                // Rustdoc does not support includes.
                let has_include = block.lines.iter().any(|line| line.contains("{{#"));
                assert!(!has_include, "{place}: only programs in other languages are included");
                continue;
            }
            let [line] = block.lines[..] else { panic!("{place}: include it from docs/examples, where it is run") };
            let (path, anchor) = included(line).unwrap_or_else(|| panic!("{place}: {line} includes no part of a file"));
            let file = page.path.parent().unwrap().join(path);
            let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{place}: {path}: {error}"));
            let within = file.canonicalize().unwrap();
            let examples = root().join("docs/examples").canonicalize().unwrap();
            assert!(within.starts_with(examples), "{place}: {path} is not in docs/examples");
            assert!(shown(&text, anchor).is_some(), "{place}: {path} has nothing between the anchors {anchor}");
            count += 1;
        }
    }
    assert!(count > 0, "no page shows another language");
}

#[test]
fn what_is_between_anchors_is_shown() {
    let pages: Vec<String> = pages().into_iter().map(|page| page.text).collect();
    let mut pending = vec![root().join("docs/examples")];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for anchor in text.lines().filter_map(|line| line.trim().split_once(" ANCHOR: ").map(|(_, anchor)| anchor)) {
            let name = path.file_name().map(Path::new).unwrap().display();
            let include = format!("{name}:{anchor}}}}}");
            assert!(pages.iter().any(|page| page.contains(&include)), "no page shows {anchor} of {}", path.display());
        }
    }
}
