//! Decoding a snapshot, and finding damage in it.

use std::{
    io::{self, Read},
    sync::Arc,
};

use bytes::Bytes;
use crc32fast::Hasher;

use super::{END, FORMAT, MAGIC, crc};
use crate::{Entry, Revision};

/// Reads a snapshot and checks all of it.
///
/// A snapshot is intact if the last call of [`next_entry`](Self::next_entry) has returned `None`.
pub struct Decoder<R> {
    source: R,
    position: u64,
    revision: Revision,
    records: u64,
    read: u64,
    last: Revision,
    checksums: Hasher,
    ended: bool,
}

/// Reasons why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Something else than a snapshot.
    #[error("not a snapshot of windlass")]
    NotASnapshot,
    /// A snapshot of a later version.
    #[error("the snapshot has format {found}, and this version supports only format {FORMAT}")]
    Format {
        /// The format of the snapshot.
        found: u32,
    },
    /// A snapshot that ends too early.
    #[error("the snapshot is cut off after {position} bytes")]
    CutOff {
        /// The number of bytes that are there.
        position: u64,
    },
    /// A snapshot whose content has changed.
    #[error("the snapshot is damaged at byte {position}: {what}")]
    Damaged {
        /// The start of the damaged part.
        position: u64,
        /// The damage.
        what: &'static str,
    },
    /// The source could not be read.
    #[error("failed to read the snapshot")]
    Read(#[source] io::Error),
}

impl<R: Read> Decoder<R> {
    /// Reads the header.
    pub fn new(source: R) -> Result<Self, SnapshotError> {
        let (revision, last) = (Revision(0), Revision(0));
        let checksums = Hasher::new();
        let mut decoder = Self { source, position: 0, revision, records: 0, read: 0, last, checksums, ended: false };
        let mut header = Vec::new();
        decoder.fetch(&mut header, MAGIC.len()).map_err(|error| match error {
            SnapshotError::CutOff { .. } => SnapshotError::NotASnapshot,
            error => error,
        })?;
        if header != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        decoder.fetch(&mut header, 24)?;
        let mut fields = Fields(&header[MAGIC.len()..]);
        let (format, revision, records) = (fields.u32(), fields.u64(), fields.u64());
        if format != FORMAT {
            return Err(SnapshotError::Format { found: format });
        }
        if fields.u32() != crc(&header[..header.len() - 4]) {
            return Err(SnapshotError::Damaged { position: 0, what: "the checksum of the header does not match" });
        }
        (decoder.revision, decoder.records) = (Revision(revision), records);
        Ok(decoder)
    }

    /// The revision of the snapshot.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Number of entries in the snapshot.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next entry; `None` at the end of an intact snapshot.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, SnapshotError> {
        if self.ended {
            return Ok(None);
        }
        let start = self.position;
        let damaged = |what| SnapshotError::Damaged { position: start, what };
        let mut record = Vec::new();
        self.fetch(&mut record, 16)?;
        let mut fields = Fields(&record);
        let (key_size, value_size, revision) = (fields.u32(), fields.u32(), Revision(fields.u64()));
        if key_size == END {
            self.end(start, record)?;
            return Ok(None);
        }
        let (key_size, value_size) = (key_size as usize, value_size as usize);
        self.fetch(&mut record, key_size)?;
        self.fetch(&mut record, value_size)?;
        self.fetch(&mut record, 4)?;
        let (content, checksum) = record.split_at(record.len() - 4);
        if checksum != crc(content).to_le_bytes() {
            return Err(damaged("the checksum of a record does not match"));
        }
        self.checksums.update(checksum);
        let key = std::str::from_utf8(&content[16..16 + key_size]).map_err(|_| damaged("a key is not UTF-8"))?;
        if revision <= self.last || revision > self.revision {
            return Err(damaged("the revision of a record is out of order"));
        }
        (self.last, self.read) = (revision, self.read + 1);
        let key = Arc::from(key);
        let value = Bytes::from(record).slice(16 + key_size..16 + key_size + value_size);
        Ok(Some(Entry { key, value, revision }))
    }

    /// Checks the trailer, of which the first 16 bytes have been read.
    fn end(&mut self, start: u64, mut trailer: Vec<u8>) -> Result<(), SnapshotError> {
        let damaged = |what| SnapshotError::Damaged { position: start, what };
        self.fetch(&mut trailer, 4)?;
        let mut fields = Fields(&trailer[4..]);
        let (records, checksums, checksum) = (fields.u64(), fields.u32(), fields.u32());
        if checksum != crc(&trailer[..16]) {
            return Err(damaged("the checksum of the trailer does not match"));
        }
        if records != self.read || records != self.records || checksums != self.checksums.clone().finalize() {
            return Err(damaged("records are missing"));
        }
        let mut more = [0];
        match self.source.read(&mut more) {
            Ok(0) => self.ended = true,
            Ok(_) => return Err(damaged("there is data after the end")),
            Err(error) => return Err(SnapshotError::Read(error)),
        }
        Ok(())
    }

    /// Appends bytes of the source. Allocates only for bytes that exist, regardless of a damaged size.
    fn fetch(&mut self, buffer: &mut Vec<u8>, count: usize) -> Result<(), SnapshotError> {
        let before = buffer.len();
        self.source.by_ref().take(count as u64).read_to_end(buffer).map_err(SnapshotError::Read)?;
        let fetched = buffer.len() - before;
        self.position += fetched as u64;
        if fetched < count { Err(SnapshotError::CutOff { position: self.position }) } else { Ok(()) }
    }
}

/// Numbers at the start of a slice that has been checked to be long enough.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (array, rest) = self.0.split_first_chunk().expect("the caller must pass enough bytes");
        self.0 = rest;
        *array
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}
