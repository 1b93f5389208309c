//! What was generated, from the history of version control.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use windlass_scaffold::fingerprint;

/// How far back it is looked.
const COMMITS: &str = "--max-count=500";

/// The text of a file with a fingerprint, if it was ever committed to git.
pub(super) fn find(root: &Path, path: &str, known: &str) -> Option<String> {
    let commits = git(root, &["log", COMMITS, "--format=%H", "--", path])?;
    // `./`, as the project need not be the root of the repository.
    let texts = commits.lines().filter_map(|commit| git(root, &["show", &format!("{commit}:./{path}")]));
    texts.into_iter().find(|text| fingerprint(text) == known)
}

/// What git says; nothing if there is none, or no repository.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(root).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}
