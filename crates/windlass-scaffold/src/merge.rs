//! Merges changes of the scaffold into edited files.
//!
//! First a three-way merge, with the previously generated file as the common ancestor. It conflicts as soon as
//! neighbouring lines have changed. Then each change is tried on its own: lines are added next to the line they follow
//! or precede, if that line still exists exactly once; a call in a method chain can follow any call that preceded it;
//! an item at the end stays at the end. The rest is left to the user.

use diffy::{DiffOptions, Line};

/// A change of consecutive lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineChange {
    /// Preceding lines in the old text, nearest first.
    before: Vec<String>,
    /// Following line in the old text.
    after: Option<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) added: Vec<String>,
}

/// Result of a merge: the text, and the changes that could not be placed.
pub(crate) struct Merged {
    pub(crate) text: String,
    pub(crate) remaining: Vec<LineChange>,
}

/// Merges the changes from `base` to `theirs` into the edited text.
pub(crate) fn merge(base: &str, edited: &str, theirs: &str) -> Merged {
    if let Ok(text) = diffy::merge(base, edited, theirs) {
        return Merged { text, remaining: Vec::new() };
    }
    let mut lines: Vec<String> = edited.split_inclusive('\n').map(str::to_owned).collect();
    let mut remaining = Vec::new();
    for group in line_changes(base, theirs) {
        if !place(&mut lines, &group) {
            remaining.push(group);
        }
    }
    Merged { text: lines.concat(), remaining }
}

/// Merges the changes into the edited text, with conflict markers where needed.
pub(crate) fn merge_with_markers(base: &str, edited: &str, theirs: &str) -> Result<String, String> {
    diffy::merge(base, edited, theirs)
}

/// Returns the changes from one text to another.
pub(crate) fn line_changes(old: &str, new: &str) -> Vec<LineChange> {
    let mut options = DiffOptions::new();
    // The whole text as one hunk.
    options.set_context_len(old.lines().count() + new.lines().count());
    let patch = options.create_patch(old, new);
    let mut line_changes: Vec<LineChange> = Vec::new();
    let mut above: Vec<String> = Vec::new();
    let mut open = false;
    for line in patch.hunks().iter().flat_map(|hunk| hunk.lines()) {
        match line {
            Line::Context(text) => {
                if open && let Some(group) = line_changes.last_mut() {
                    group.after = Some((*text).to_owned());
                }
                open = false;
                above.insert(0, (*text).to_owned());
            }
            Line::Delete(text) | Line::Insert(text) => {
                if !open {
                    line_changes.push(LineChange {
                        before: above.clone(),
                        after: None,
                        removed: Vec::new(),
                        added: Vec::new(),
                    });
                    open = true;
                }
                if let Some(group) = line_changes.last_mut() {
                    let lines = if matches!(line, Line::Delete(_)) { &mut group.removed } else { &mut group.added };
                    lines.push((*text).to_owned());
                }
            }
        }
    }
    line_changes
}

/// Applies a change if there is exactly one place for it.
fn place(lines: &mut Vec<String>, group: &LineChange) -> bool {
    if !group.added.is_empty() && find(lines, &group.added).is_some() {
        // The user has already made the change.
        return group.removed.is_empty() || find(lines, &group.removed).is_none();
    }
    if !group.removed.is_empty() {
        let Some(start) = find(lines, &group.removed) else { return false };
        lines.splice(start..start + group.removed.len(), group.added.iter().cloned());
        return true;
    }
    let only = |line: &String| find(lines, std::slice::from_ref(line));
    let is_call = |line: &&String| line.trim_start().starts_with('.');
    let start = match (group.before.first().and_then(only), group.after.as_ref().and_then(only)) {
        (Some(before), _) => before + 1,
        (None, Some(after)) => after,
        // The position of a call in a method chain hardly matters.
        (None, None) if group.added.iter().all(|line| is_call(&line)) => {
            match group.before.iter().take_while(is_call).find_map(only) {
                Some(before) => before + 1,
                None => return false,
            }
        }
        // Items at the end are appended after the user's, if the text they followed still exists.
        (None, None) if group.after.is_none() && group.added.first().is_some_and(|line| line.trim().is_empty()) => {
            match group.before.iter().find(|line| is_significant(line)).and_then(only) {
                Some(_) => lines.len(),
                None => return false,
            }
        }
        (None, None) => return false,
    };
    lines.splice(start..start, group.added.iter().cloned());
    true
}

/// Returns the position of these lines if they occur exactly once and are not blank.
fn find(lines: &[String], wanted: &[String]) -> Option<usize> {
    if !wanted.iter().any(|line| is_significant(line)) {
        return None;
    }
    let mut places = (0..(lines.len() + 1).saturating_sub(wanted.len()))
        .filter(|start| lines[*start..start + wanted.len()].iter().zip(wanted).all(|(a, b)| a.trim() == b.trim()));
    let place = places.next()?;
    places.next().is_none().then_some(place)
}

fn is_significant(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric)
}

/// Returns the line number near which a change belongs.
pub(crate) fn line_of(text: &str, group: &LineChange) -> usize {
    let lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let neighbours = group.before.first().into_iter().chain(&group.after);
    let place = neighbours.filter_map(|line| lines.iter().position(|other| other.trim() == line.trim())).next();
    place.map_or(1, |place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "fn operator() {\n    new()\n        .define::<A>()\n        .controller(a())\n}\n";
    const THEIRS: &str = "fn operator() {\n    new()\n        .define::<A>()\n        .define::<B>()\n        .controller(a())\n        .controller(b())\n}\n";

    #[test]
    fn edits_elsewhere_are_kept() {
        let edited = format!("//! Mine.\n\n{BASE}");
        let merged = merge(BASE, &edited, THEIRS);
        assert_eq!(merged.text, format!("//! Mine.\n\n{THEIRS}"));
        assert!(merged.remaining.is_empty());
    }

    #[test]
    fn edits_of_neighbouring_lines_are_kept() {
        let edited = BASE.replace(".controller(a())", ".controller(a().concurrency(4))\n        .task(mine)");
        let merged = merge(BASE, &edited, THEIRS);
        assert!(
            merged.text.contains(".define::<A>()\n        .controller(b())\n        .define::<B>()\n"),
            "{}",
            merged.text
        );
        assert!(merged.text.contains(".controller(a().concurrency(4))\n        .task(mine)\n"), "{}", merged.text);
        assert!(merged.remaining.is_empty());
    }

    #[test]
    fn lines_other_than_calls_are_placed_next_to_their_neighbours_only() {
        let base = "struct A {\n    /// The a.\n    a: i32,\n}\n";
        let theirs = "struct A {\n    /// The a.\n    a: i32,\n    b: i32,\n}\n";
        let merged = merge(base, &base.replace("a: i32", "a: i64"), theirs);
        assert_eq!(merged.text, base.replace("a: i32", "a: i64"));
        assert_eq!(merged.remaining[0].added, ["    b: i32,\n"]);
    }

    #[test]
    fn items_added_at_the_end_by_both_sides_are_all_kept() {
        let (base, mine, theirs) =
            ("fn a() {\n    1;\n}\n", "\nfn mine() {\n    2;\n}\n", "\nfn theirs() {\n    3;\n}\n");
        let merged = merge(base, &format!("{base}{mine}"), &format!("{base}{theirs}"));
        assert_eq!((merged.text, merged.remaining), (format!("{base}{mine}{theirs}"), Vec::new()));
        let merged = merge(base, "mod mine;\n", &format!("{base}{theirs}"));
        assert_eq!((merged.text.as_str(), merged.remaining.len()), ("mod mine;\n", 1), "the file is another");
    }

    #[test]
    fn changes_made_by_hand_are_not_repeated() {
        let merged = merge(BASE, THEIRS, THEIRS);
        assert_eq!((merged.text.as_str(), merged.remaining.len()), (THEIRS, 0));
        let edited = THEIRS.replace("new()", "mine()").replace("        .controller(b())\n", "");
        let merged = merge(BASE, &edited, THEIRS);
        assert_eq!(merged.text.matches("define::<B>").count(), 1, "{}", merged.text);
        assert_eq!(merged.text.matches("controller(b())").count(), 1, "{}", merged.text);
    }

    #[test]
    fn changes_that_cannot_be_placed_are_reported() {
        let merged = merge(BASE, "fn operator() { mine() }\n", THEIRS);
        assert_eq!(merged.text, "fn operator() { mine() }\n");
        assert_eq!(merged.remaining.len(), 2);
        assert_eq!(line_of("a\n        .define::<A>()\n", &merged.remaining[0]), 2);
    }

    #[test]
    fn lines_that_are_no_longer_generated_are_removed() {
        let edited = THEIRS.replace("new()", "mine()");
        let merged = merge(THEIRS, &edited, BASE);
        assert_eq!(merged.text, BASE.replace("new()", "mine()"));
    }
}
