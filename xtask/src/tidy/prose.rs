//! Prose: phrases that read like a literal translation, with what to write instead.
//!
//! Comments, messages, templates and pages are searched alike. A phrase may continue on the next line of a comment. The
//! list is short on purpose: it keeps the worst habits out and does not replace reading.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, bail};

use super::files;

/// Banned phrases in lower case, and the suggested replacement.
const BANNED: &[(&str, &str)] = &[
    ("what is to be", "desired"),
    ("is to be", "must be, should be"),
    ("are to be", "must be, should be"),
    ("so many", "as many, that many, the number of"),
    ("that which", "the noun itself"),
    ("nobody is", "no client is, no user is"),
    ("whoever", "the caller, the client, the user"),
    ("who asks", "the caller, the user"),
    ("it is said", "the subject and what it does"),
    ("one file a", "one file per"),
    ("one line a", "one line per"),
    ("refuse what", "reject"),
    ("passed over", "skipped"),
    ("forgets its type", "is type-erased"),
    ("made anew", "recreated"),
    ("what there is", "the noun itself"),
    ("data folder", "data directory"),
    ("house rules", "project conventions"),
    ("hears of", "is notified of, learns of"),
    ("in good order", "cleanly"),
    ("is there already", "already exists"),
    ("somebody asks", "a client requests"),
    ("whatever there is", "the noun itself"),
    ("somebody", "the caller, a client, a user"),
    ("is about", "matches, concerns, covers"),
    ("are about", "match, concern, cover"),
    ("as it should be", "desired, correct, up to date"),
    ("in force", "in effect, takes effect"),
    ("are asked", "are consulted, queried, called"),
    ("beside the", "alongside, next to, in addition to"),
    ("beside it", "alongside it, next to it"),
    ("beside them", "alongside them, next to them"),
    ("beside that", "in addition"),
    ("in the words of", "worded as in"),
    ("tried again", "retried"),
    ("the own", "its own, their own"),
    ("is told", "learns, is notified, receives"),
    ("nobody can", "no client can, no process can"),
    ("nobody else", "no other client, no other user"),
    ("that nobody", "that no client, that no process"),
    ("sees to it", "ensures"),
];
/// Phrases that contain a banned one and are ordinary English.
const ORDINARY: &[&str] = &["is about to", "are about to"];
/// Directories that are searched.
const FOLDERS: &[&str] = &[".ci", "bench", "crates", "docs", "e2e", "fuzz", "operators", "xtask"];
/// Endings of files with prose. Data recorded from Kubernetes is JSON, which is not searched.
const ENDINGS: &[&str] = &["go", "md", "mjs", "py", "rs", "sh", "tmpl", "toml", "txt", "yaml", "yml"];
/// Exceptions, one `path: phrase: reason` per line.
const EXCEPTIONS: &str = "xtask/prose-allow.txt";
/// This file and the exceptions contain the phrases themselves.
const UNSEARCHED: &[&str] = &["xtask/src/tidy/prose.rs", EXCEPTIONS];

/// Checks all files with prose.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let exceptions = exceptions(&root.join(EXCEPTIONS))?;
    let mut used = BTreeSet::new();
    let mut complaints = Vec::new();
    for path in files(root, FOLDERS, has_prose)? {
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for (line, phrase, replacement) in banned(&text) {
            let found = (path.clone(), phrase.to_owned());
            if exceptions.contains(&found) {
                used.insert(found);
            } else {
                complaints.push(format!("{path}:{line}: instead of \"{phrase}\" write {replacement}"));
            }
        }
    }
    let unused = exceptions.difference(&used);
    complaints.extend(unused.map(|(path, phrase)| format!("{EXCEPTIONS}: remove {path}: it has no \"{phrase}\"")));
    Ok(complaints)
}

/// Returns the banned phrases of a text, each with its line, counted from one, and the replacement.
fn banned(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let lines: Vec<String> = text.lines().map(|line| line.to_lowercase()).collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        // With the beginning of the next line, as a phrase may be wrapped.
        let next = lines.get(number + 1).map(|next| without_comment_prefix(next)).unwrap_or_default();
        let wrapped = format!("{} {next}", line.trim_end());
        for (phrase, replacement) in BANNED {
            let starts = wrapped.match_indices(phrase).map(|(start, _)| start);
            let mut starts = starts.filter(|start| *start < line.len() && !is_ordinary(&wrapped[*start..]));
            let here = starts.any(|start| is_whole(&wrapped, start, phrase.len()));
            if here {
                found.push((number + 1, *phrase, *replacement));
            }
        }
    }
    found
}

fn without_comment_prefix(line: &str) -> &str {
    line.trim_start().trim_start_matches(['/', '!', '#']).trim_start()
}

/// Returns whether a text begins with an ordinary phrase.
fn is_ordinary(text: &str) -> bool {
    ORDINARY.iter().any(|phrase| text.starts_with(phrase) && is_whole(text, 0, phrase.len()))
}

/// Returns whether a match neither starts nor ends inside a word.
fn is_whole(text: &str, start: usize, length: usize) -> bool {
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !in_word(text[..start].chars().next_back()) && !in_word(text[start + length..].chars().next())
}

fn exceptions(path: &Path) -> anyhow::Result<BTreeSet<(String, String)>> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut exceptions = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut parts = line.splitn(3, ": ");
        match (parts.next(), parts.next(), parts.next()) {
            (Some(path), Some(phrase), Some(_reason)) => exceptions.insert((path.to_owned(), phrase.to_owned())),
            _ => bail!("{EXCEPTIONS}: {line:?} is not `path: phrase: reason`"),
        };
    }
    Ok(exceptions)
}

fn has_prose(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let script = path.starts_with(".ci") && ending.is_none();
    !UNSEARCHED.iter().any(|file| path == Path::new(file)) && (script || ending.is_some_and(|it| ENDINGS.contains(&it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        banned(text).into_iter().map(|(line, ..)| line).collect()
    }

    #[test]
    fn a_banned_phrase_is_found_with_its_line_and_a_replacement() {
        let found = banned("//! Fine.\n/// What a Greeting is to be.\nlet text = \"in the Data folder\";\n");
        assert_eq!(found, [(2, "is to be", "must be, should be"), (3, "data folder", "data directory")]);
    }

    #[test]
    fn a_phrase_that_wraps_is_found_once() {
        assert_eq!(lines("/// The object is to\n/// be deleted.\n"), [1]);
        assert_eq!(lines("The object is\nto be deleted.\n"), [1]);
    }

    #[test]
    fn a_part_of_a_word_is_not_a_phrase() {
        assert_eq!(lines("This to believe: a basis to be. metadata folders\n"), Vec::<usize>::new());
    }

    #[test]
    fn an_ordinary_phrase_may_contain_a_banned_one() {
        assert_eq!(lines("// The request is about\n// to end.\n// The request is about a pod.\n"), [3]);
        assert_eq!(lines("// They are about to, and they are about together.\n"), [1]);
    }

    #[test]
    fn sources_markdown_templates_and_scripts_have_prose() {
        let paths = ["README.md", "crates/a/src/lib.rs", "crates/a/templates/x.yaml.tmpl", ".ci/run", "deny.toml"];
        for path in paths.into_iter().chain(["e2e/kubectl.py", "e2e/envtest/a_test.go", "e2e/watch.mjs"]) {
            assert!(has_prose(Path::new(path)), "{path}");
        }
        for path in ["Cargo.lock", "crates/a/tests/recorded.json", "docs/src/images/demo.svg", UNSEARCHED[0]] {
            assert!(!has_prose(Path::new(path)), "{path}");
        }
    }
}
