//! A file that appears once the server is ready, for scripts that wait for it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// A file that does not exist until it is announced.
pub(crate) struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Removes the file of an earlier run, so that it is not mistaken for this one's.
    pub(crate) fn prepare(path: PathBuf) -> anyhow::Result<Self> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(Self(path)),
        }
    }

    /// Creates the file atomically, with the server's URL in it.
    pub(crate) fn announce(&self, url: &str) -> anyhow::Result<()> {
        appear(&self.0, &format!("{url}\n"))
    }
}

/// Creates or replaces a file atomically.
pub(crate) fn appear(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    fs::write(Path::new(&temporary), text)
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
