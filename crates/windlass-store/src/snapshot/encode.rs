//! Encoding a snapshot, piece by piece.

use bytes::{BufMut as _, Bytes, BytesMut};
use crc32fast::Hasher;

use super::{END, FORMAT, MAGIC, SnapshotReader, crc};
use crate::Error;

/// Approximate size of a piece.
const PIECE: usize = 1 << 20;

/// Encodes a snapshot.
pub struct Encoder {
    reader: Box<dyn SnapshotReader>,
    records: u64,
    written: u64,
    checksums: Hasher,
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
        let records = reader.remaining() as u64;
        Self { reader, records, written: 0, checksums: Hasher::new(), next: Part::Header }
    }

    /// Returns the next piece; `None` at the end. May block.
    pub fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        match self.next {
            Part::Header => {
                self.next = Part::Records;
                Ok(Some(self.header()))
            }
            Part::Records => {
                let piece = self.records()?;
                Ok(Some(piece.unwrap_or_else(|| {
                    self.next = Part::Nothing;
                    self.trailer()
                })))
            }
            Part::Nothing => Ok(None),
        }
    }

    fn header(&self) -> Bytes {
        let mut header = BytesMut::from(&MAGIC[..]);
        header.put_u32_le(FORMAT);
        header.put_u64_le(self.reader.revision().0);
        header.put_u64_le(self.records);
        header.put_u32_le(crc(&header));
        header.freeze()
    }

    fn records(&mut self) -> Result<Option<Bytes>, Error> {
        let entries = self.reader.read(PIECE)?;
        if entries.is_empty() {
            return Ok(None);
        }
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
        Ok(Some(piece.freeze()))
    }

    fn trailer(&self) -> Bytes {
        let mut trailer = BytesMut::new();
        trailer.put_u32_le(END);
        trailer.put_u64_le(self.written);
        trailer.put_u32_le(self.checksums.clone().finalize());
        trailer.put_u32_le(crc(&trailer));
        trailer.freeze()
    }
}
