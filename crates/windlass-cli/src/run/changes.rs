//! Watching the sources.
//!
//! The files are polled, which is cheap for a project and works on every file system and in every container.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::Context as _;

/// Polling interval. Editors write in several steps, and version control writes many files: changes in consecutive
/// polls belong together.
const EVERY: Duration = Duration::from_millis(250);
/// Sources of an operator, relative to the project. Directories are watched recursively.
const WATCHED: &[&str] = &["src", "Cargo.toml", "Cargo.lock", "build.rs", ".cargo", "crates", "templates"];

/// Files, with the modification time and size by which changes are detected.
type Stamps = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Changes of the sources.
pub(crate) struct Changes {
    root: PathBuf,
    seen: Stamps,
    /// Changes since the last report.
    gathered: BTreeSet<PathBuf>,
}

impl Changes {
    /// Starts watching the sources of a project.
    pub(crate) fn watch(root: &Path) -> anyhow::Result<Self> {
        fs::read_dir(root).with_context(|| format!("cannot watch {}", root.display()))?;
        Ok(Self { root: root.to_owned(), seen: look(root), gathered: BTreeSet::new() })
    }

    /// Waits for changes, and returns the changed files relative to the project. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Vec<String> {
        loop {
            tokio::time::sleep(EVERY).await;
            let root = self.root.clone();
            let Ok(now) = tokio::task::spawn_blocking(move || look(&root)).await else { continue };
            let changed = differences(&self.seen, &now);
            self.seen = now;
            let is_quiet = changed.is_empty();
            self.gathered.extend(changed);
            if is_quiet && !self.gathered.is_empty() {
                let relative = |path: PathBuf| path.strip_prefix(&self.root).unwrap_or(&path).display().to_string();
                return std::mem::take(&mut self.gathered).into_iter().map(relative).collect();
            }
        }
    }
}

/// Files that were added, deleted or changed.
fn differences(before: &Stamps, now: &Stamps) -> Vec<PathBuf> {
    let changed = now.iter().filter(|(path, stamp)| before.get(*path) != Some(stamp));
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    changed.map(|(path, _)| path).chain(gone).cloned().collect()
}

/// Stamps of all sources. Unreadable files are skipped.
fn look(root: &Path) -> Stamps {
    let mut stamps = Stamps::new();
    let mut pending: Vec<PathBuf> = WATCHED.iter().map(|name| root.join(name)).collect();
    while let Some(path) = pending.pop() {
        // Symbolic links are not followed: they may form cycles.
        let Ok(found) = path.symlink_metadata() else { continue };
        if !found.is_dir() {
            stamps.insert(path, (found.modified().ok(), found.len()));
            continue;
        }
        let entries = fs::read_dir(&path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        pending.extend(entries.filter(|path| is_source(path)));
    }
    stamps
}

/// Returns whether a file is a source, as opposed to a temporary file of an editor or of cargo.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let by_editor = name.ends_with('~')
        || name.starts_with(".#")
        || name.starts_with('#')
        || [".swp", ".swx", ".swo", ".tmp", ".bak"].iter().any(|end| name.ends_with(end))
        || name == "4913";
    !by_editor && name != "target" && !name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_distinguished_from_temporary_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let files = [
            "src/main.rs",
            "src/api/book/v1.rs",
            "Cargo.toml",
            "target/debug/shop",
            "crates/a/target/x",
            "deploy/crd/x.yaml",
            "src/.main.rs.swp",
            "src/main.rs~",
            "src/.#main.rs",
            "src/4913",
            "README.md",
        ];
        for file in files.map(|file| root.join(file)) {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("src/circle")).unwrap();
        let expected = ["Cargo.toml", "src/api/book/v1.rs", "src/circle", "src/main.rs"].map(|file| root.join(file));
        assert_eq!(look(root).into_keys().collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn files_that_change_together_are_reported_together() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("src")).unwrap();
        fs::write(root.join("src/old.rs"), "").unwrap();
        fs::write(root.join("src/same.rs"), "").unwrap();
        let mut changes = Changes::watch(root).unwrap();
        fs::write(root.join("README.md"), "no source").unwrap();
        fs::write(root.join("src/main.rs"), "fn main() {}").unwrap();
        fs::remove_file(root.join("src/old.rs")).unwrap();
        // As editors write files.
        fs::write(root.join("Cargo.toml.tmp"), "[package]").unwrap();
        fs::rename(root.join("Cargo.toml.tmp"), root.join("Cargo.toml")).unwrap();
        assert_eq!(changes.next().await, ["Cargo.toml", "src/main.rs", "src/old.rs"]);
        assert!(Changes::watch(&root.join("nowhere")).is_err());
    }
}
