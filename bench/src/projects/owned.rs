//! The part of a project that a person has to read and maintain.
//!
//! All text files except for files that a tool writes and nobody edits: generated code and manifests, lock files,
//! the tool's own record, and licences. Non-empty lines are counted, including comments, since they are read as well.

use std::{fs, path::Path};

use anyhow::Context as _;

/// Directories that builds fill.
const BUILT: &[&str] = &[".git", "bin", "target"];

/// Files that a tool rewrites, by the end of their path.
const REWRITTEN: &[&str] = &[
    // Both tools.
    "PROJECT",
    "LICENSE",
    // kubebuilder: written by controller-gen and go.
    "go.sum",
    "zz_generated.deepcopy.go",
    "config/rbac/role.yaml",
    // windlass: written by cargo and the project's manifest test.
    "Cargo.lock",
    "deploy/crd/crds.yaml",
    "deploy/manager/manager.yaml",
    "deploy/metrics/monitor.yaml",
    "deploy/network-policy/policy.yaml",
    "deploy/rbac/rbac.yaml",
    "deploy/webhook/webhooks.yaml",
];

/// Directories of such files: CRDs written by controller-gen.
const REWRITTEN_WITHIN: &[&str] = &["config/crd/bases/"];

/// Counted files and lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Owned {
    /// All files.
    pub(super) files: usize,
    /// Number of files that the user owns.
    pub(super) owned_files: usize,
    /// Lines of these files.
    pub(super) lines: u64,
    /// Lines of Rust and Go among them.
    pub(super) code: u64,
    /// Each file with its lines.
    pub(super) paths: Vec<(String, u64)>,
}

/// Counts files and lines of a project.
pub(super) fn count(project: &Path) -> anyhow::Result<Owned> {
    let mut owned = Owned::default();
    let mut pending = vec![project.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            let name = path.strip_prefix(project).unwrap_or(&path).display().to_string();
            if path.is_dir() {
                if !BUILT.contains(&name.as_str()) {
                    pending.push(path);
                }
                continue;
            }
            owned.files += 1;
            if is_rewritten(&name) {
                continue;
            }
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
            owned.owned_files += 1;
            owned.lines += lines;
            if name.ends_with(".rs") || name.ends_with(".go") {
                owned.code += lines;
            }
            owned.paths.push((name, lines));
        }
    }
    owned.paths.sort();
    Ok(owned)
}

fn is_rewritten(path: &str) -> bool {
    let ends = |end: &&str| path == *end || path.ends_with(&format!("/{end}"));
    REWRITTEN.iter().any(ends) || REWRITTEN_WITHIN.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_rewrite_is_not_owned() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("src/main.rs", "fn main() {\n\n}\n"),
            ("Cargo.lock", "1\n2\n"),
            ("Makefile", "all:\n"),
            ("api/v1/zz_generated.deepcopy.go", "package v1\n"),
            ("config/crd/bases/x.yaml", "a: 1\n"),
            ("target/debug/x", "x\n"),
        ] {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let owned = count(folder.path()).unwrap();
        assert_eq!((owned.files, owned.owned_files, owned.lines, owned.code), (5, 2, 3, 2), "{owned:?}");
    }
}
