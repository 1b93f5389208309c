//! A second target directory, for builds at the same time as in the first: cargo locks a target directory while it builds.

use std::{fs, path::Path};

use anyhow::Context as _;

/// Copies what is compiled for the workspace, so that nothing is compiled again. Artifacts are hard links: cargo and rustc
/// replace them, and never write to them. Fingerprints and outputs of build scripts are written in place, so they are copies.
pub(super) fn copy(target: &Path, lane: &Path) -> anyhow::Result<()> {
    if lane.exists() {
        fs::remove_dir_all(lane).with_context(|| format!("cannot remove {}", lane.display()))?;
    }
    let (from, to) = (target.join("debug"), lane.join("debug"));
    copy_folder(&from.join("deps"), &to.join("deps"), link_file)?;
    for folder in [".fingerprint", "build"] {
        copy_folder(&from.join(folder), &to.join(folder), copy_file)?;
    }
    Ok(())
}

/// Links or copies a file, replacing a previous one.
pub(super) fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    let folder = to.parent().context("a file must be in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if to.exists() {
        fs::remove_file(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    link_file(from, to)
}

/// Copies a folder with one function for each file. Folders that do not exist are skipped.
fn copy_folder(from: &Path, to: &Path, file: fn(&Path, &Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target, file)?,
            false => file(&entry.path(), &target)?,
        }
    }
    Ok(())
}

fn link_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::hard_link(from, to).or_else(|_| copy_file(from, to))
}

/// Copies a file with its modification time, which cargo compares.
fn copy_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot copy {}", from.display());
    fs::copy(from, to).with_context(failed)?;
    let modified = fs::metadata(from).and_then(|metadata| metadata.modified()).with_context(failed)?;
    let copy = fs::File::options().write(true).open(to).with_context(failed)?;
    copy.set_modified(modified).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_the_artifacts_of_its_target_and_fingerprints_of_its_own() {
        let root = std::env::temp_dir().join(format!("windlass-lane-{}", std::process::id()));
        let (target, lane) = (root.join("target"), root.join("target/scaffold/lane"));
        for file in ["deps/liba.rlib", ".fingerprint/a/lib-a", "build/a/output"] {
            create_parent(&target.join("debug").join(file));
            fs::write(target.join("debug").join(file), "old").unwrap();
        }
        let modified = |root: &Path| fs::metadata(root.join("debug/.fingerprint/a/lib-a")).unwrap().modified().unwrap();
        copy(&target, &lane).unwrap();
        assert_eq!(modified(&lane), modified(&target));
        // Cargo writes fingerprints in place, and replaces artifacts.
        for file in [".fingerprint/a/lib-a", "build/a/output"] {
            fs::write(lane.join("debug").join(file), "new").unwrap();
            assert_eq!(fs::read_to_string(target.join("debug").join(file)).unwrap(), "old", "{file}");
        }
        assert_eq!(fs::read_to_string(lane.join("debug/deps/liba.rlib")).unwrap(), "old");
        // A second copy replaces the first.
        copy(&target, &lane).unwrap();
        assert_eq!(fs::read_to_string(lane.join("debug/build/a/output")).unwrap(), "old");
        fs::remove_dir_all(&root).unwrap();
    }

    fn create_parent(file: &Path) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
    }
}
