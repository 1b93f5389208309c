//! Directories in memory, for volumes with the medium `Memory`.
//!
//! They are in `/dev/shm`, so that all containers of a pod share them, and no privileges are needed. A pod has one there,
//! named after its own directory. Their size is not limited, unlike that of the file systems of a kubelet.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

const MEMORY: &str = "/dev/shm";

/// Returns the directory of a volume, which may not exist; `None` if this machine has none in memory.
pub(super) fn volume(pod: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    static EXISTS: OnceLock<bool> = OnceLock::new();
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if !*EXISTS.get_or_init(|| is_in_memory(&mounts(), MEMORY)) {
        return Ok(None);
    }
    let directory = directory(pod);
    match fs::DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Every user can create directories here.
            let found = fs::symlink_metadata(&directory)?;
            if !found.is_dir() || found.uid() != rustix::process::getuid().as_raw() || found.mode() & 0o077 != 0 {
                return Err(io::Error::other(format!("{} belongs to another user", directory.display())));
            }
        }
        created => created?,
    }
    Ok(Some(directory.join(name)))
}

/// Removes the directories of a pod.
pub(super) fn remove(pod: &Path) {
    let _ = fs::remove_dir_all(directory(pod));
}

fn directory(pod: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    pod.hash(&mut hasher);
    Path::new(MEMORY).join(format!("windlass-pod-{:016x}", hasher.finish()))
}

/// Returns whether a mount point is a file system in memory.
fn is_in_memory(mounts: &str, path: &str) -> bool {
    let mut lines = mounts.lines().rev().map(|line| line.split(' ').skip(1));
    let found = lines.find_map(|mut fields| if fields.next() == Some(path) { fields.next() } else { None });
    found == Some("tmpfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_counts() {
        let mounts = "dev /dev devtmpfs rw 0 0\nshm /dev/shm tmpfs rw,nosuid 0 0\n";
        assert!(is_in_memory(mounts, "/dev/shm"));
        assert!(!is_in_memory(mounts, "/dev"));
        assert!(!is_in_memory(&format!("{mounts}/dev/sda /dev/shm ext4 rw 0 0\n"), "/dev/shm"));
        assert!(!is_in_memory("", "/dev/shm"));
    }

    #[test]
    fn a_volume_is_removed_with_its_pod() {
        let pod = tempfile::tempdir().unwrap();
        let Some(volume) = volume(pod.path(), "cache").unwrap() else { return };
        fs::create_dir(&volume).unwrap();
        assert_eq!(super::volume(pod.path(), "cache").unwrap().as_ref(), Some(&volume));
        remove(pod.path());
        assert!(!volume.parent().unwrap().exists());
    }
}
