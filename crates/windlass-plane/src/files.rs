//! Reading and writing files that hold secrets.
//!
//! A file is readable by its owner alone from the moment it exists, and appears under its name complete or not at all,
//! also after a power failure: it is on disk before it gets its name.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Mode of private keys and of files that contain one.
pub(crate) const SECRET: u32 = 0o600;
/// Mode of certificates.
pub(crate) const PUBLIC: u32 = 0o644;

/// Permissions of group and others.
const OTHERS: u32 = 0o077;
/// The bit of directories that belong to all users, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Contents {
    Missing,
    /// No bytes, which a crash may have left behind.
    Empty,
    Text(String),
}

/// Creates a directory and its parents, accessible to the owner only. Existing directories keep their mode.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    path.parent().map_or(Ok(()), |parent| System.sync_directory(parent))
}

/// Replaces a file atomically and durably: readers see the old contents or the new, never a part. When this returns, the
/// new contents survive a power failure.
pub(crate) fn replace(path: &Path, contents: &str, mode: u32) -> io::Result<()> {
    replace_on(&mut System, path, contents, mode)
}

/// The operations of a file system that [`replace`] needs.
trait FileSystem {
    type File;

    /// Creates a file that does not exist, and writes to it.
    fn create(&mut self, path: &Path, contents: &str, mode: u32) -> io::Result<Self::File>;
    /// Makes the contents of a file durable.
    fn sync(&mut self, file: &Self::File) -> io::Result<()>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;
    /// Removes a file if it exists.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

fn replace_on(system: &mut impl FileSystem, path: &Path, contents: &str, mode: u32) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    // A leftover may have any mode or be a symlink: the file is always a new one.
    system.remove(temporary)?;
    let written = system
        .create(temporary, contents, mode)
        .and_then(|file| system.sync(&file))
        .and_then(|()| system.rename(temporary, path));
    if written.is_err() {
        // Best effort: the error above is the one to report.
        let _ = system.remove(temporary);
    }
    written?;
    path.parent().map_or(Ok(()), |directory| system.sync_directory(directory))
}

/// The file system of this machine.
struct System;

impl FileSystem for System {
    type File = fs::File;

    fn create(&mut self, path: &Path, contents: &str, mode: u32) -> io::Result<fs::File> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(contents.as_bytes())?;
        Ok(file)
    }

    fn sync(&mut self, file: &fs::File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match fs::File::open(path)?.sync_all() {
            // Some file systems cannot sync directories.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
            result => result,
        }
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> io::Result<Contents> {
    match fs::read_to_string(path) {
        Ok(text) if text.is_empty() => Ok(Contents::Empty),
        Ok(text) => Ok(Contents::Text(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Contents::Missing),
        Err(error) => Err(error),
    }
}

/// Removes all permissions of group and others from a secret file. Returns whether there were any.
pub(crate) fn close_to_others(path: &Path) -> io::Result<bool> {
    let open = fs::metadata(path)?.permissions().mode() & OTHERS != 0;
    if open {
        fs::set_permissions(path, fs::Permissions::from_mode(SECRET))?;
    }
    Ok(open)
}

/// Removes all permissions of group and others from a directory. Returns its mode before, if there were any.
pub(crate) fn close_directory(path: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(None);
    }
    if mode & STICKY != 0 {
        return Err(io::Error::other("the directory is shared by all users"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS))?;
    Ok(Some(mode))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use super::*;

    /// A file system that loses power before one of its operations. A name may be durable before the contents of its file
    /// are: the file is empty then, as on file systems with delayed allocation.
    #[derive(Default)]
    struct Crashing {
        /// Operations until the crash.
        left: usize,
        files: BTreeMap<PathBuf, usize>,
        /// Contents, and whether they are durable.
        contents: Vec<(String, bool)>,
        /// The names that were synced.
        durable: BTreeMap<PathBuf, usize>,
    }

    impl Crashing {
        fn step(&mut self) -> io::Result<()> {
            self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("power failure"))?;
            Ok(())
        }

        /// The contents of a file after the crash, by names that were synced and names that may be durable.
        fn after(&self, path: &Path) -> [Option<String>; 2] {
            let read = |file: &usize| {
                let (text, durable) = &self.contents[*file];
                if *durable { text.clone() } else { String::new() }
            };
            [self.durable.get(path).map(read), self.files.get(path).map(read)]
        }
    }

    impl FileSystem for Crashing {
        type File = usize;

        fn create(&mut self, path: &Path, contents: &str, _: u32) -> io::Result<usize> {
            self.step()?;
            self.contents.push((contents.to_owned(), false));
            self.files.insert(path.to_owned(), self.contents.len() - 1);
            Ok(self.contents.len() - 1)
        }

        fn sync(&mut self, file: &usize) -> io::Result<()> {
            self.step()?;
            self.contents[*file].1 = true;
            Ok(())
        }

        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            self.step()?;
            let file = self.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
            self.files.insert(to.to_owned(), file);
            Ok(())
        }

        fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
            self.step()?;
            assert_eq!(path, Path::new("/pki"));
            self.durable = self.files.clone();
            Ok(())
        }

        fn remove(&mut self, path: &Path) -> io::Result<()> {
            self.step()?;
            self.files.remove(path);
            Ok(())
        }
    }

    #[test]
    fn after_a_power_failure_a_file_has_its_old_or_its_new_contents() {
        let path = Path::new("/pki/sa.key");
        let mut completed = false;
        for left in 0..10 {
            let mut system = Crashing { left: usize::MAX, ..Crashing::default() };
            replace_on(&mut system, path, "old", SECRET).unwrap();
            system.left = left;
            let result = replace_on(&mut system, path, "new", SECRET);
            for text in system.after(path) {
                let text = text.expect("the file must exist");
                assert!(text == "new" || text == "old" && result.is_err(), "{text:?} after {left} operations");
            }
            completed |= result.is_ok();
        }
        assert!(completed);
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_without_leftovers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "old").unwrap();
        replace(&path, "new", SECRET).unwrap();
        assert_eq!(read(&path).unwrap(), Contents::Text("new".to_owned()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, SECRET);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        replace(&path, "", SECRET).unwrap();
        assert_eq!(read(&path).unwrap(), Contents::Empty);
        assert_eq!(read(&directory.path().join("b")).unwrap(), Contents::Missing);
    }

    #[test]
    fn only_directories_of_one_user_are_closed_to_others() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("data");
        fs::create_dir(&directory).unwrap();
        let mode = || fs::metadata(&directory).unwrap().permissions().mode() & 0o7777;
        for (before, after) in [(0o755, 0o700), (0o700, 0o700), (0o701, 0o700), (0o2770, 0o2700)] {
            fs::set_permissions(&directory, fs::Permissions::from_mode(before)).unwrap();
            assert_eq!(close_directory(&directory).unwrap(), (before != after).then_some(before));
            assert_eq!(mode(), after);
        }
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(close_directory(&directory).is_err());
        assert_eq!(mode(), 0o1777);
    }
}
