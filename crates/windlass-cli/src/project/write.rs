//! Writes several files: all of them or none.
//!
//! New contents are first written to temporary files next to their targets. Then these are renamed one after the other,
//! and the old files are restored if one of them fails.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
use windlass_scaffold::Change;

use super::deferred_signals::deferring_signals;

/// Between the name of a file and the id of the process that writes it.
const MARK: &str = ".windlass-";

/// Applies changes within a directory. Signals are deferred until it is done.
pub(crate) fn all(root: &Path, changes: &[Change]) -> anyhow::Result<()> {
    deferring_signals(|| do_all(root, changes))
}

fn do_all(root: &Path, changes: &[Change]) -> anyhow::Result<()> {
    let mut work = Work::default();
    let result = work.prepare(root, changes).and_then(|()| work.commit(root, changes));
    if result.is_err() {
        work.undo();
        return result;
    }
    for change in changes.iter().filter(|change| change.new.is_none()) {
        let folders = Path::new(&change.path).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        for folder in folders {
            // A directory that is not empty is kept.
            if fs::remove_dir(root.join(folder)).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Progress so far.
#[derive(Default)]
struct Work {
    /// Created directories, outer ones first.
    folders: Vec<PathBuf>,
    /// Temporary files.
    beside: Vec<PathBuf>,
    /// Replaced files with their old content.
    replaced: Vec<(PathBuf, Option<String>)>,
}

impl Work {
    fn prepare(&mut self, root: &Path, changes: &[Change]) -> anyhow::Result<()> {
        for change in changes {
            let file = place(root, change);
            let there = fs::read_to_string(&file).ok();
            ensure!(there == change.old, "{} was changed concurrently", file.display());
            if let Some(text) = &change.new {
                self.prepare_one(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
        Ok(())
    }

    fn prepare_one(&mut self, file: &Path, text: &str) -> io::Result<()> {
        if let Some(folder) = file.parent() {
            let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
            for folder in missing.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
                fs::create_dir(folder)?;
                self.folders.push(folder.to_owned());
            }
        }
        let beside = beside(file);
        self.beside.push(beside.clone());
        fs::write(&beside, text)?;
        match fs::metadata(file) {
            Ok(there) => fs::set_permissions(&beside, there.permissions()),
            Err(_) => Ok(()),
        }
    }

    fn commit(&mut self, root: &Path, changes: &[Change]) -> anyhow::Result<()> {
        for change in changes {
            let file = place(root, change);
            let done = match change.new {
                Some(_) => fs::rename(beside(&file), &file),
                None => fs::remove_file(&file),
            };
            done.with_context(|| format!("failed to change {}", file.display()))?;
            self.replaced.push((file, change.old.clone()));
        }
        Ok(())
    }

    /// Restores the old state, as far as possible.
    fn undo(self) {
        for (file, old) in self.replaced.into_iter().rev() {
            let undone = match old {
                Some(text) => fs::write(&file, text),
                None => fs::remove_file(&file),
            };
            if let Err(error) = undone {
                tracing::warn!(file = %file.display(), %error, "failed to restore the file");
            }
        }
        for file in self.beside {
            let _ = fs::remove_file(file);
        }
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Target of a change. A symbolic link is kept: its target is replaced.
fn place(root: &Path, change: &Change) -> PathBuf {
    let file = root.join(&change.path);
    match (file.is_symlink() && change.new.is_some()).then(|| fs::canonicalize(&file)) {
        Some(Ok(file)) => file,
        _ => file,
    }
}

/// Temporary file for the new content of a file.
fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!("{MARK}{}", std::process::id()));
    file.with_file_name(name)
}

/// Removes temporary files of processes that were killed.
pub(super) fn sweep(root: &Path) {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (Ok(kind), name) = (entry.file_type(), entry.file_name()) else { continue };
            let name = name.to_string_lossy();
            if kind.is_dir() && !["target", ".git", "node_modules"].contains(&&*name) {
                folders.push(entry.path());
            } else if kind.is_file() && is_left(&name) {
                tracing::debug!(file = %entry.path().display(), "removed a temporary file of a process that has exited");
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns whether a file is a temporary file of a process that has exited.
fn is_left(name: &str) -> bool {
    let Some((_, id)) = name.strip_prefix('.').and_then(|name| name.rsplit_once(MARK)) else { return false };
    let process = id.parse::<i32>().ok().filter(|id| *id > 0).and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, old: Option<&str>, new: Option<&str>) -> Change {
        Change { path: path.to_owned(), old: old.map(str::to_owned), new: new.map(str::to_owned), merged: false }
    }

    fn listing(root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_created_changed_and_deleted_with_their_directories() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        all(root, &[change("a/b/c.txt", None, Some("1")), change("d.txt", None, Some("2"))]).unwrap();
        assert_eq!(fs::read_to_string(root.join("a/b/c.txt")).unwrap(), "1");
        all(root, &[change("a/b/c.txt", Some("1"), None), change("d.txt", Some("2"), Some("3"))]).unwrap();
        assert_eq!(fs::read_to_string(root.join("d.txt")).unwrap(), "3");
        assert_eq!(listing(root), ["d.txt"]);
    }

    #[test]
    fn a_failed_write_restores_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("a"), "old").unwrap();
        fs::create_dir_all(root.join("z/full")).unwrap();
        let changes =
            [change("a", Some("old"), Some("new")), change("b/new.txt", None, Some("2")), change("z", None, Some("3"))];
        let error = all(root, &changes).unwrap_err();
        assert!(error.to_string().contains("failed to change"), "{error:#}");
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "old");
        assert_eq!(listing(root), ["a", "z"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_is_kept_until_it_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("real"), "old").unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        all(root, &[change("link", Some("old"), Some("new"))]).unwrap();
        assert_eq!(fs::read_to_string(root.join("real")).unwrap(), "new");
        all(root, &[change("link", Some("new"), None)]).unwrap();
        assert_eq!(listing(root), ["real"]);
    }

    #[test]
    fn concurrent_changes_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "theirs").unwrap();
        let error = all(folder.path(), &[change("a", Some("old"), Some("new"))]).unwrap_err();
        assert!(error.to_string().contains("changed concurrently"), "{error}");
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "theirs");
    }
}
