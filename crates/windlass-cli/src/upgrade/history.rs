//! Generated files in the git history.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use windlass_scaffold::fingerprint;

/// Number of commits to search.
const COMMITS: &str = "--max-count=500";

/// Returns the content of a file with a fingerprint, if it was ever committed.
pub(super) fn find(root: &Path, path: &str, known: &str) -> Option<String> {
    let commits = git(root, &["log", COMMITS, "--format=%H", "--", path])?;
    // `./`, as the project need not be the root of the repository.
    let texts = commits.lines().filter_map(|commit| git(root, &["show", &format!("{commit}:./{path}")]));
    texts.into_iter().find(|text| fingerprint(text) == known)
}

/// Returns the output of git; `None` without git or a repository.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(root).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}
