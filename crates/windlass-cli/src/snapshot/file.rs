//! Files of snapshots: written as a whole or not at all, and read to the end.

use std::{
    fs::{self, File},
    io::{BufReader, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use windlass_plane::snapshot::{Decoder, SnapshotError};
use windlass_schema::json;

use super::{Contents, Meter};
use crate::failure::ErrorWithHint;

/// A file that appears under its name when it is complete. Readable only by its owner, because it contains Secrets.
pub(super) struct Output {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
    written: u64,
}

impl Output {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        let file = file.with_context(|| format!("cannot write {}", temporary.display()))?;
        Ok(Self { path: path.to_owned(), temporary, file: Some(BufWriter::new(file)), written: 0 })
    }

    pub(super) fn write(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        let file = self.file.as_mut().context("the file has been completed")?;
        file.write_all(piece).with_context(|| format!("cannot write {}", self.temporary.display()))?;
        self.written += piece.len() as u64;
        Ok(())
    }

    /// Number of bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Syncs the file, checks that it is an intact snapshot, and moves it to its place.
    pub(super) fn complete(mut self) -> anyhow::Result<Contents> {
        let name = self.temporary.display().to_string();
        let file = self.file.take().context("the file has been completed")?;
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_all()).with_context(|| format!("cannot write {name}"))?;
        let contents = read(&self.temporary, &mut Meter::new("checked"))?;
        let place = || -> std::io::Result<()> {
            fs::rename(&self.temporary, &self.path)?;
            let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
        };
        place().with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(contents)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // It does not exist any more if it has been completed.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Opens a snapshot.
pub(super) fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

/// Reads a whole snapshot: checks its framing and checksums, and finds objects that cannot be parsed.
pub(super) fn read(path: &Path, meter: &mut Meter) -> anyhow::Result<Contents> {
    let mut decoder = Decoder::new(open(path)?).map_err(|error| damaged(path, &error))?;
    let mut damaged_objects = Vec::new();
    while let Some(entry) = decoder.next_entry().map_err(|error| damaged(path, &error))? {
        if json::parse(&entry.value).is_err() {
            damaged_objects.push(entry.key.to_string());
        }
        meter.at(decoder.position());
    }
    let (revision, objects, bytes) = (decoder.revision().0, decoder.records(), decoder.position());
    Ok(Contents { revision, objects, bytes, damaged_objects })
}

const ANOTHER: &str = "use another snapshot, or save a new one with `windlass snapshot save`";

/// The error of a file that is not an intact snapshot.
pub(super) fn damaged(path: &Path, error: &SnapshotError) -> anyhow::Error {
    let hint = match error {
        SnapshotError::NotASnapshot => "snapshots are created with `windlass snapshot save`",
        SnapshotError::Format { .. } => "use the version of windlass that saved the snapshot, or a later one",
        SnapshotError::CutOff { .. } | SnapshotError::Damaged { .. } => ANOTHER,
        SnapshotError::Read(_) => "check the disk",
    };
    let cause = match error {
        SnapshotError::Read(source) => format!("{error}: {source}"),
        error => error.to_string(),
    };
    ErrorWithHint { message: format!("{} cannot be used: {cause}", path.display()), hint: hint.into() }.into()
}
