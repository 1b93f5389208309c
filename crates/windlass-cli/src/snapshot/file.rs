//! Files of snapshots: written as a whole or not at all, and read to the end.

use std::{fs::File, io::BufReader, path::Path};

use anyhow::Context as _;
use windlass_plane::snapshot::{Decoder, SnapshotError, SnapshotFile};
use windlass_schema::json;

use super::{Contents, Meter};
use crate::failure::ErrorWithHint;

/// The file of a snapshot that is being saved; an existing one is replaced when it is complete.
pub(super) struct Output(SnapshotFile);

impl Output {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = SnapshotFile::create(path);
        Ok(Self(file.with_context(|| format!("cannot write {}", path.display()))?))
    }

    pub(super) fn write(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        let written = self.0.write(piece);
        written.with_context(|| format!("cannot write {}", self.0.temporary().display()))
    }

    /// Number of bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.0.written()
    }

    /// Syncs the file, checks that it is an intact snapshot, and moves it to its place.
    pub(super) fn complete(mut self) -> anyhow::Result<Contents> {
        let synced = self.0.sync();
        synced.with_context(|| format!("cannot write {}", self.0.temporary().display()))?;
        let contents = read(self.0.temporary(), &mut Meter::new("checked"))?;
        let path = self.0.path().to_owned();
        self.0.place().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(contents)
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
