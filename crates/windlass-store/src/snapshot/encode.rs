//! Encoding a snapshot, piece by piece.

use bytes::{BufMut as _, Bytes, BytesMut};
use crc32fast::Hasher;

use super::{END, FORMAT, MAGIC, SnapshotReader, crc};
use crate::{Entry, Error, Revision};

/// Approximate size of a piece.
const PIECE: usize = 1 << 20;

/// Encodes a snapshot.
pub struct Encoder {
    reader: Box<dyn SnapshotReader>,
    parts: Parts,
    next: Part,
}

enum Part {
    Header,
    Records,
    Nothing,
}

impl Encoder {
    /// Encodes what a reader returns.
    pub fn new(reader: Box<dyn SnapshotReader>) -> Self {
        let parts = Parts::new(reader.revision(), reader.remaining() as u64);
        Self { reader, parts, next: Part::Header }
    }

    /// Returns the next piece; `None` at the end. May block.
    pub fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        match self.next {
            Part::Header => {
                self.next = Part::Records;
                Ok(Some(self.parts.header()))
            }
            Part::Records => {
                let entries = self.reader.read(PIECE)?;
                if !entries.is_empty() {
                    return Ok(Some(self.parts.records(&entries)?));
                }
                self.next = Part::Nothing;
                Ok(Some(self.parts.trailer()))
            }
            Part::Nothing => Ok(None),
        }
    }
}

/// Encodes the parts of a snapshot, for entries that do not come from a reader.
pub struct Parts {
    revision: Revision,
    records: u64,
    written: u64,
    checksums: Hasher,
}

impl Parts {
    /// The parts of a snapshot of this revision with this number of records.
    pub fn new(revision: Revision, records: u64) -> Self {
        Self { revision, records, written: 0, checksums: Hasher::new() }
    }

    /// Returns the header, which comes first.
    pub fn header(&self) -> Bytes {
        let mut header = BytesMut::from(&MAGIC[..]);
        header.put_u32_le(FORMAT);
        header.put_u64_le(self.revision.0);
        header.put_u64_le(self.records);
        header.put_u32_le(crc(&header));
        header.freeze()
    }

    /// Returns the records of the next entries, whose revisions must ascend.
    pub fn records(&mut self, entries: &[Entry]) -> Result<Bytes, Error> {
        let mut piece = BytesMut::with_capacity(PIECE + PIECE / 4);
        for entry in entries {
            let start = piece.len();
            let size = |bytes: &[u8]| {
                let size = u32::try_from(bytes.len()).ok().filter(|size| *size != END);
                size.ok_or_else(|| Error::Storage { cause: format!("{} is too large for a snapshot", entry.key) })
            };
            piece.put_u32_le(size(entry.key.as_bytes())?);
            piece.put_u32_le(size(&entry.value)?);
            piece.put_u64_le(entry.revision.0);
            piece.put_slice(entry.key.as_bytes());
            piece.put_slice(&entry.value);
            let checksum = crc(&piece[start..]);
            piece.put_u32_le(checksum);
            self.checksums.update(&checksum.to_le_bytes());
            self.written += 1;
        }
        Ok(piece.freeze())
    }

    /// Returns the trailer, which comes last.
    pub fn trailer(&self) -> Bytes {
        let mut trailer = BytesMut::new();
        trailer.put_u32_le(END);
        trailer.put_u64_le(self.written);
        trailer.put_u32_le(self.checksums.clone().finalize());
        trailer.put_u32_le(crc(&trailer));
        trailer.freeze()
    }
}
