//! Writing the file of a snapshot, as a whole or not at all.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crate::files;

/// A file that appears under its name when it is complete. Readable only by its owner, because it contains Secrets.
#[derive(Debug)]
pub struct SnapshotFile {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    written: u64,
}

impl SnapshotFile {
    /// Creates a file, which has another name until it is complete.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(files::SECRET).open(&temporary)?;
        Ok(Self { path: path.to_owned(), temporary, file: BufWriter::new(file), written: 0 })
    }

    /// Appends a piece.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.written += piece.len() as u64;
        Ok(())
    }

    /// Number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Path of the complete file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the file until it is placed.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Makes the contents durable.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()
    }

    /// Moves the file to its place, and replaces one that is there.
    pub fn place(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)?;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        // It does not exist any more if it has been placed.
        let _ = fs::remove_file(&self.temporary);
    }
}
