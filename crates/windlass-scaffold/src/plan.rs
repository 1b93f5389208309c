//! Decides how a command changes each file.

use std::collections::{BTreeMap, BTreeSet};

use windlass_schema::sorting::{self, Gather as _};

use crate::{
    Files, fingerprint,
    merge::{self, LineChange, line_changes, line_of},
};

/// Changes that a command makes to the files of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePlan {
    /// Changes to make.
    pub changes: Vec<Change>,
    /// Changes that the user has to make.
    pub manual_edits: Vec<ManualEdit>,
    /// Changes that need the user's consent.
    pub questions: Vec<Question>,
    /// Files with conflict markers after an upgrade.
    pub conflicts: Vec<String>,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path within the project, with slashes.
    pub path: String,
    /// Current content; `None` if the file does not exist.
    pub old: Option<String>,
    /// New content; `None` if the file is deleted.
    pub new: Option<String>,
    /// Whether it contains edits of the user.
    pub merged: bool,
}

/// Lines that could not be placed in an edited file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManualEdit {
    /// Path of the file.
    pub path: String,
    /// Line near which they belong.
    pub line: usize,
    /// Lines to remove.
    pub remove: Vec<String>,
    /// Lines to add.
    pub add: Vec<String>,
}

/// A change that would discard the user's edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The change.
    pub change: Change,
    /// Reason why consent is needed.
    pub why: &'static str,
}

/// Handling of conflicts between an edited file and a change of the scaffold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// The command prints which lines the user must change.
    Report,
    /// Conflict markers are written into the file.
    Mark,
}

/// Compares the files generated `before`, the files to generate `after`, and the files on disk.
///
/// `recorded` are the fingerprints in PROJECT: they identify unmodified files even if they were generated from another
/// version of the templates. Files that are the same before and after are skipped.
pub fn plan(
    recorded: &BTreeMap<String, String>,
    before: &Files,
    after: &Files,
    current: &dyn Fn(&str) -> Option<String>,
    conflicts: Conflicts,
) -> FilePlan {
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).gather();
    let mut plan = FilePlan::default();
    for path in paths {
        let (old, new) = (before.get(path), after.get(path));
        if old == new {
            continue;
        }
        let current = current(path);
        let is_ours = |text: &str| {
            old.is_some_and(|old| old == text) || recorded.get(path).is_some_and(|known| *known == fingerprint(text))
        };
        match (old, new, current) {
            (_, Some(new), Some(text)) if *new == text => {}
            (None, Some(new), None) => plan.change(path, None, Some(new.clone())),
            // The user has deleted the file, and may have moved its content elsewhere.
            (Some(old), Some(new), None) if recorded.contains_key(path) => plan.leave(path, "", line_changes(old, new)),
            (Some(_), Some(new), None) => plan.change(path, None, Some(new.clone())),
            (_, Some(new), Some(text)) if is_ours(&text) => plan.change(path, Some(text), Some(new.clone())),
            (Some(old), Some(new), Some(text)) => plan.merge(path, old, text, new, conflicts),
            (None, Some(new), Some(text)) => {
                let why = match recorded.contains_key(path) {
                    true => "it was edited",
                    false => "it already exists and was not created by windlass",
                };
                let change = Change { path: path.clone(), old: Some(text), new: Some(new.clone()), merged: false };
                plan.questions.push(Question { change, why });
            }
            (_, None, Some(text)) if is_ours(&text) => plan.change(path, Some(text), None),
            (_, None, Some(text)) => {
                let change = Change { path: path.clone(), old: Some(text), new: None, merged: false };
                plan.questions.push(Question { change, why: "it was edited" });
            }
            (_, None, None) => {}
        }
    }
    plan
}

impl FilePlan {
    fn change(&mut self, path: &str, old: Option<String>, new: Option<String>) {
        self.changes.push(Change { path: path.to_owned(), old, new, merged: false });
    }

    fn merge(&mut self, path: &str, base: &str, edited: String, new: &str, conflicts: Conflicts) {
        let text = match conflicts {
            Conflicts::Report => {
                let merged = merge::merge(base, &edited, new);
                self.leave(path, &merged.text, merged.remaining);
                merged.text
            }
            Conflicts::Mark => merge::merge_with_markers(base, &edited, new).unwrap_or_else(|marked| {
                self.conflicts.push(path.to_owned());
                marked
            }),
        };
        if text != edited {
            self.changes.push(Change { path: path.to_owned(), old: Some(edited), new: Some(text), merged: true });
        }
    }

    fn leave(&mut self, path: &str, text: &str, line_changes: Vec<LineChange>) {
        self.manual_edits.extend(line_changes.into_iter().map(|group| {
            let line = line_of(text, &group);
            ManualEdit { path: path.to_owned(), line, remove: group.removed, add: group.added }
        }));
    }

    /// Adds a change that the user has agreed to.
    pub fn accept(&mut self, question: Question) {
        self.changes.push(question.change);
        sorting::sort_by(&mut self.changes, |one, other| one.path.cmp(&other.path));
    }
}

#[cfg(test)]
mod tests;
