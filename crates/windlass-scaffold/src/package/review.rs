//! Comparison of packages with the files on disk.

use std::collections::BTreeSet;

use windlass_schema::sorting::{self, Gather as _};

use super::{MARK, Ownership, PackageFile};
use crate::{Change, Files};

/// Compares generated packages with the files on disk, and returns the necessary changes.
///
/// In files that were created once, only the lines kept up to date are changed. Generated files that are no longer part
/// of a package are deleted; files without the mark of generated ones never are.
pub fn review(generated: &[PackageFile], existing: &Files) -> Vec<Change> {
    let mut changes = Vec::new();
    for PackageFile { path, text, ownership } in generated {
        let old = existing.get(path);
        let new = match (ownership, old) {
            (Ownership::CreatedOnce(kept_lines), Some(old)) => update_lines(old, text, kept_lines),
            _ => text.clone(),
        };
        if old != Some(&new) {
            let merged = old.is_some() && matches!(ownership, Ownership::CreatedOnce(_));
            changes.push(Change { path: path.clone(), old: old.cloned(), new: Some(new), merged });
        }
    }
    let paths: BTreeSet<&String> = generated.iter().map(|file| &file.path).gather();
    let is_generated = |text: &str| text.lines().next().is_some_and(|line| line.contains(MARK));
    let stale = existing.iter().filter(|(path, text)| !paths.contains(path) && is_generated(text));
    changes.extend(stale.map(|(path, text)| Change {
        path: path.clone(),
        old: Some(text.clone()),
        new: None,
        merged: false,
    }));
    sorting::sort_by(&mut changes, |one, other| one.path.cmp(&other.path));
    changes
}

/// Returns the old text with the up-to-date lines of the new one.
fn update_lines(old: &str, new: &str, prefixes: &[&str]) -> String {
    let kept = |line: &str| {
        let prefix = prefixes.iter().find(|prefix| line.starts_with(**prefix))?;
        new.split_inclusive('\n').find(|line| line.starts_with(prefix))
    };
    old.split_inclusive('\n').map(|line| kept(line).unwrap_or(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str, ownership: Ownership) -> PackageFile {
        PackageFile { path: path.to_owned(), text: text.to_owned(), ownership }
    }

    #[test]
    fn generated_files_are_replaced_and_files_created_once_are_kept() {
        let generated = [
            file("a", "new", Ownership::Generated),
            file("b", "version: 2\nname: x\n", Ownership::CreatedOnce(&["version:"])),
            file("c", "c", Ownership::CreatedOnce(&[])),
            file("d", "d", Ownership::CreatedOnce(&[])),
            file("e", "same", Ownership::Generated),
        ];
        let old = format!("# {MARK}. DO NOT EDIT.\n");
        let existing: Files = [
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
            review(&generated, &existing).into_iter().map(|change| (change.path, change.new)).collect();
        let expected =
            [("a", Some("new")), ("b", Some("# mine\nversion: 2\nname: y\n")), ("d", Some("d")), ("left", None)];
        assert_eq!(changes, expected.map(|(path, new)| (path.to_owned(), new.map(str::to_owned))));
    }
}
