//! A file that appears when the server serves, for scripts that wait for it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// The file, which is not there until it is announced.
pub(crate) struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Removes what an earlier run left, so that nobody takes it for this one's.
    pub(crate) fn prepare(path: PathBuf) -> anyhow::Result<Self> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(Self(path)),
        }
    }

    /// Makes the file appear, complete, with the server's URL in it.
    pub(crate) fn announce(&self, url: &str) -> anyhow::Result<()> {
        appear(&self.0, &format!("{url}\n"))
    }
}

/// Makes a file appear, complete, in place of what was there.
pub(crate) fn appear(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    fs::write(Path::new(&temporary), text)
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
