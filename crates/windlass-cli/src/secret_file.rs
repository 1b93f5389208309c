//! Files with credentials: readable by their owner only, and never half-written.

use std::{
    io::{self, Write as _},
    path::Path,
};

use tempfile::NamedTempFile;

/// Creates a file with mode 0600; fails if it exists.
pub(crate) fn create(path: &Path, text: &str) -> io::Result<()> {
    written(path, text)?.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// Creates or replaces a file with mode 0600, atomically.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    written(path, text)?.persist(path).map(drop).map_err(|error| error.error)
}

/// A temporary file in the same directory, which disappears unless it is renamed.
fn written(path: &Path, text: &str) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Its mode is 0600.
    let mut file = NamedTempFile::with_prefix_in(".windlass-", folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn only_the_owner_can_read_it_and_it_is_only_replaced_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        create(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(create(&path, "two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        replace(&path, "three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "there are no temporary files");
    }
}
