//! Reading and writing files that hold secrets.
//!
//! A file is readable by its owner alone from the moment it exists, and appears under its name complete or not at all.
//! Nothing is synced: after a power failure a file may be empty, which [`read`] reports as absent, so it is recreated.

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

/// Creates a directory and its parents, accessible to the owner only. Existing directories keep their mode.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file atomically: readers see the old contents or the new, never a part.
pub(crate) fn replace(path: &Path, contents: &str, mode: u32) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    // A leftover may have any mode or be a symlink: `create_new` makes sure that this file is ours.
    if let Err(error) = fs::remove_file(temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(temporary)
        .and_then(|mut file| file.write_all(contents.as_bytes()))
        .and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        // Best effort: the error above is the one to report.
        let _ = fs::remove_file(temporary);
    }
    written
}

/// Returns the text of a file, or `None` if the file is missing or empty.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes all permissions of group and others from a secret file. Returns whether there were any.
pub(crate) fn close_to_others(path: &Path) -> io::Result<bool> {
    let open = fs::metadata(path)?.permissions().mode() & 0o077 != 0;
    if open {
        fs::set_permissions(path, fs::Permissions::from_mode(SECRET))?;
    }
    Ok(open)
}
