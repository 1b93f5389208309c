//! What there is to do, so that files are as they should be.

use std::collections::BTreeSet;

use super::{MARK, Ownership, Packaged};
use crate::{Change, Files};

/// Compares what was made with what is there, in the places where it belongs.
///
/// Files that were begun are left alone but for the lines that are kept in step. What was made earlier and is not made
/// any more goes; files without the mark of generated ones never do.
pub fn review(made: &[Packaged], there: &Files) -> Vec<Change> {
    let mut changes = Vec::new();
    for Packaged { path, text, ownership } in made {
        let old = there.get(path);
        let new = match (ownership, old) {
            (Ownership::Begun(in_step), Some(old)) => in_step_with(old, text, in_step),
            _ => text.clone(),
        };
        if old != Some(&new) {
            let merged = old.is_some() && matches!(ownership, Ownership::Begun(_));
            changes.push(Change { path: path.clone(), old: old.cloned(), new: Some(new), merged });
        }
    }
    let paths: BTreeSet<&String> = made.iter().map(|file| &file.path).collect();
    let is_made = |text: &str| text.lines().next().is_some_and(|line| line.contains(MARK));
    let stale = there.iter().filter(|(path, text)| !paths.contains(path) && is_made(text));
    changes.extend(stale.map(|(path, text)| Change {
        path: path.clone(),
        old: Some(text.clone()),
        new: None,
        merged: false,
    }));
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

/// The old text with some lines of the new one.
fn in_step_with(old: &str, new: &str, begins: &[&str]) -> String {
    let kept = |line: &str| {
        let begin = begins.iter().find(|begin| line.starts_with(**begin))?;
        new.split_inclusive('\n').find(|line| line.starts_with(begin))
    };
    old.split_inclusive('\n').map(|line| kept(line).unwrap_or(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str, ownership: Ownership) -> Packaged {
        Packaged { path: path.to_owned(), text: text.to_owned(), ownership }
    }

    #[test]
    fn what_is_generated_is_replaced_and_what_was_begun_is_not() {
        let made = [
            file("a", "new", Ownership::Generated),
            file("b", "version: 2\nname: x\n", Ownership::Begun(&["version:"])),
            file("c", "c", Ownership::Begun(&[])),
            file("d", "d", Ownership::Begun(&[])),
            file("e", "same", Ownership::Generated),
        ];
        let old = format!("# {MARK}: edits are lost.\n");
        let there: Files = [
            ("a", "old"),
            ("b", "# mine\nversion: 1\nname: y\n"),
            ("c", "mine"),
            ("e", "same"),
            ("left", old.as_str()),
            ("mine", "mine"),
        ]
        .into_iter()
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect();
        let changes: Vec<(String, Option<String>)> =
            review(&made, &there).into_iter().map(|change| (change.path, change.new)).collect();
        let expected =
            [("a", Some("new")), ("b", Some("# mine\nversion: 2\nname: y\n")), ("d", Some("d")), ("left", None)];
        assert_eq!(changes, expected.map(|(path, new)| (path.to_owned(), new.map(str::to_owned))));
    }
}
