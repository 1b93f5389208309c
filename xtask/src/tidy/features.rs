//! Features of the dependencies of generated projects, which `cargo xtask scaffold` compiles with those of the workspace.

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::{Context as _, ensure};

use crate::cargo;

/// Dependencies of a generated project when `cargo xtask scaffold` checks it.
const PROJECT: &[&str] = &["windlass-shared-features", "windlass", "windlass-testing"];

/// Returns a complaint for each dependency that a project would compile with other features than the tests of the
/// workspace. Every crate that depends on it would be compiled a second time, too.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let workspace = features(root, &["--workspace", "--edges", "normal,build,dev"])?;
    let packages = PROJECT.iter().flat_map(|package| ["--package", package]);
    let project = features(root, &packages.chain(["--edges", "normal,build"]).collect::<Vec<_>>())?;
    Ok(complaints(&workspace, &project))
}

fn complaints(workspace: &BTreeSet<String>, project: &BTreeSet<String>) -> Vec<String> {
    let complaint = |line: &String| {
        format!(
            "generated projects enable other features than the workspace, so CI compiles them twice: {line}: \
             enable what is missing in xtask/features/Cargo.toml"
        )
    };
    project.difference(workspace).map(complaint).collect()
}

/// Returns the packages that a selection compiles, each with its features.
fn features(root: &Path, selection: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    let output = Command::new(cargo::program())
        .args(["tree", "--quiet", "--prefix", "none", "--format", "{p} with the features [{f}]"])
        .args(selection)
        .current_dir(root)
        .output()
        .context("failed to run cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).context("failed to read the output of cargo tree")?;
    // Marks packages that are listed more than once.
    Ok(lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).filter(|line| !line.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_projects_with_other_features_are_named() {
        let set = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<BTreeSet<_>>();
        let workspace = set(&["libc with the features [std]", "libc with the features [extra_traits,std]"]);
        assert_eq!(complaints(&workspace, &set(&["libc with the features [std]"])), Vec::<String>::new());
        let complaints = complaints(&workspace, &set(&["libc with the features []"]));
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].contains("libc with the features []"), "{complaints:?}");
    }
}
