//! Atomic replacement of files: readers see the old or the new text.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// A temporary file next to its target; deleted unless it replaces it.
struct Prepared {
    beside: PathBuf,
    file: PathBuf,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // After a rename it no longer exists.
        let _ = fs::remove_file(&self.beside);
    }
}

/// Writes all strings to temporary files, and only then moves them into place.
pub(super) fn all<'a>(files: impl IntoIterator<Item = (&'a Path, &'a str)>) -> anyhow::Result<()> {
    let mut prepared = Vec::new();
    for (file, text) in files {
        prepared.push(prepare(file, text).with_context(|| format!("cannot write {}", file.display()))?);
    }
    for one in prepared {
        fs::rename(&one.beside, &one.file).with_context(|| format!("cannot write {}", one.file.display()))?;
    }
    Ok(())
}

fn prepare(file: &Path, text: &str) -> io::Result<Prepared> {
    // A symbolic link is kept: its target is replaced.
    let (file, permissions) = match fs::canonicalize(file) {
        Ok(file) => {
            let permissions = fs::metadata(&file)?.permissions();
            (file, Some(permissions))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (file.to_owned(), None),
        Err(error) => return Err(error),
    };
    let name = file.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::IsADirectory, "it is not a file"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let prepared = Prepared { beside: file.with_file_name(hidden), file };
    fs::write(&prepared.beside, text)?;
    if let Some(permissions) = permissions {
        fs::set_permissions(&prepared.beside, permissions)?;
    }
    Ok(prepared)
}
