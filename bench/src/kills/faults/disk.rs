//! A small file system in memory, which can be filled.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// Its size: enough for the files that etcd allocates in advance, twice.
const SIZE: &str = "size=512m";
const FILLER: &str = "filler";

/// A mounted file system, unmounted when dropped.
#[derive(Debug)]
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts it on an empty directory, for which the process must be root.
    pub(super) fn mount(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(folder).output();
        let output = output.context("cannot run mount")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Self(folder.to_owned()))
    }

    /// Uses up all space.
    pub(super) fn fill(&self) -> anyhow::Result<()> {
        let mut filler = File::create(self.0.join(FILLER))?;
        for size in [1 << 20, 4 << 10, 1] {
            let zeros = vec![0; size];
            loop {
                match filler.write_all(&zeros) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).context("failed to fill the disk"),
                }
            }
        }
        Ok(())
    }

    /// Makes the space available again.
    pub(super) fn free(&self) -> anyhow::Result<()> {
        fs::remove_file(self.0.join(FILLER)).context("failed to free the disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        match Command::new("umount").arg("--lazy").arg(&self.0).status() {
            Ok(status) if status.success() => {}
            other => eprintln!("failed to unmount {}: {other:?}", self.0.display()),
        }
    }
}
