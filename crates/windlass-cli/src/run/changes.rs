//! Watching the sources.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::{sync::mpsc, time::Instant};

/// Editors write in several steps, and version control many files: what follows so soon belongs together.
const QUIET: Duration = Duration::from_millis(200);
/// Somebody who never stops writing is not waited for any longer.
const LONGEST: Duration = Duration::from_secs(2);
/// How many changes may wait. More of them tell nothing new.
const WAITING: usize = 256;
/// What programs are made of, in the folder of the project. Folders are watched with all that is in them.
const WATCHED: &[&str] = &["src", "Cargo.toml", "Cargo.lock", "build.rs", ".cargo", "crates", "templates"];

/// Changes of the sources. Ends when dropped.
pub(crate) struct Changes {
    root: PathBuf,
    changed: mpsc::Receiver<PathBuf>,
    /// What has changed already, and until when others may.
    gathered: BTreeSet<PathBuf>,
    end: Instant,
    _watcher: RecommendedWatcher,
}

impl Changes {
    /// Watches the sources of a project from now on.
    pub(crate) fn watch(root: &Path) -> anyhow::Result<Self> {
        // What the system names has no links in it.
        let root = root.canonicalize().with_context(|| format!("cannot watch {}", root.display()))?;
        let (sender, changed) = mpsc::channel(WAITING);
        let of = root.clone();
        let take = move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            for path in event.paths.into_iter().filter(|path| is_source(&of, path)) {
                // If there is no room, enough is known to have changed.
                let _ = sender.try_send(path);
            }
        };
        let mut watcher = notify::recommended_watcher(take).context("cannot watch files")?;
        // The folder, as files are often replaced by others of the same name, which have to be noticed, too.
        let watching = watcher.watch(&root, RecursiveMode::NonRecursive);
        watching.with_context(|| format!("cannot watch {}", root.display()))?;
        for folder in WATCHED.iter().map(|name| root.join(name)).filter(|path| path.is_dir()) {
            let watching = watcher.watch(&folder, RecursiveMode::Recursive);
            watching.with_context(|| format!("cannot watch {}", folder.display()))?;
        }
        Ok(Self { root, changed, gathered: BTreeSet::new(), end: Instant::now(), _watcher: watcher })
    }

    /// Waits for changes: the files, relative to the project, that have changed one soon after the other. May be dropped
    /// and called again.
    pub(crate) async fn next(&mut self) -> Vec<String> {
        if self.gathered.is_empty() {
            let Some(first) = self.changed.recv().await else { return std::future::pending().await };
            self.gathered.insert(first);
            self.end = Instant::now() + LONGEST;
        }
        loop {
            let quiet = self.end.min(Instant::now() + QUIET);
            match tokio::time::timeout_at(quiet, self.changed.recv()).await {
                Ok(Some(path)) => self.gathered.insert(path),
                _ => break,
            };
        }
        let relative = |path: PathBuf| path.strip_prefix(&self.root).unwrap_or(&path).display().to_string();
        std::mem::take(&mut self.gathered).into_iter().map(relative).collect()
    }
}

/// Whether a file belongs to the sources, and is not something that an editor keeps beside them.
fn is_source(root: &Path, path: &Path) -> bool {
    let Ok(relative) = path.strip_prefix(root) else { return false };
    let Some(first) = relative.iter().next().and_then(|first| first.to_str()) else { return false };
    let name = relative.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let by_editor = name.ends_with('~')
        || name.starts_with(".#")
        || name.starts_with('#')
        || [".swp", ".swx", ".swo", ".tmp", ".bak"].iter().any(|end| name.ends_with(end))
        || name == "4913";
    WATCHED.contains(&first) && !by_editor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_from_what_lies_beside_them() {
        for (path, expected) in [
            ("src/main.rs", true),
            ("src/api/book/v1.rs", true),
            ("Cargo.toml", true),
            ("Cargo.lock", true),
            ("target/debug/shop", false),
            ("deploy/crd/x.yaml", false),
            ("src/.main.rs.swp", false),
            ("src/main.rs~", false),
            ("src/.#main.rs", false),
            ("src/4913", false),
            ("README.md", false),
            ("", false),
        ] {
            assert_eq!(is_source(Path::new("/p"), &Path::new("/p").join(path)), expected, "{path}");
        }
        assert!(!is_source(Path::new("/p"), Path::new("/q/src/main.rs")));
    }

    #[tokio::test]
    async fn files_that_change_together_are_told_together() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("src")).unwrap();
        let mut changes = Changes::watch(root).unwrap();
        std::fs::write(root.join("README.md"), "no source").unwrap();
        std::fs::write(root.join("src/main.rs"), "fn main() {}").unwrap();
        // As editors do it.
        std::fs::write(root.join("Cargo.toml.tmp"), "[package]").unwrap();
        std::fs::rename(root.join("Cargo.toml.tmp"), root.join("Cargo.toml")).unwrap();
        assert_eq!(changes.next().await, ["Cargo.toml", "src/main.rs"]);
    }
}
