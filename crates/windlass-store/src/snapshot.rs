//! Snapshots: the state of a store at one revision, in a file or a stream.
//!
//! # Format
//!
//! All numbers are little-endian. Every part ends with a CRC-32 of its bytes.
//!
//! | part    | content |
//! |---------|---------|
//! | header  | `windlass snapshot\n`, format `u32` (1), revision `u64`, number of records `u64`, CRC `u32` |
//! | record  | size of the key `u32`, size of the value `u32`, revision of its last write `u64`, key, value, CRC `u32` |
//! | trailer | `0xffff_ffff`, number of records `u64`, CRC of the CRCs of all records `u32`, CRC `u32` |
//!
//! Records are ordered by revision. The trailer is the end: a file that was cut off is recognized, and so is one that
//! lacks records.

mod decode;
mod digest;
mod encode;

use crc32fast::Hasher;

pub use self::{
    decode::{Decoder, SnapshotError},
    digest::Digest,
    encode::{Encoder, Parts},
};
use crate::{Entry, Error, Page, Revision};

const MAGIC: &[u8; 18] = b"windlass snapshot\n";
const FORMAT: u32 = 1;
/// Takes the place of a record's key size in the trailer.
const END: u32 = u32::MAX;

/// The newest state of a store, to be read piece by piece.
pub trait SnapshotReader: Send {
    /// The revision of the state.
    fn revision(&self) -> Revision;

    /// Number of entries that have not been read yet.
    fn remaining(&self) -> usize;

    /// Returns the next entries in the order of their revisions, until they have at least this size; none at the end.
    /// May block.
    fn read(&mut self, bytes: usize) -> Result<Vec<Entry>, Error>;
}

/// A complete list as a snapshot.
pub(crate) struct Listed {
    revision: Revision,
    entries: std::vec::IntoIter<Entry>,
}

impl Listed {
    pub(crate) fn new(page: Page) -> Self {
        let mut entries = page.entries;
        entries.sort_unstable_by_key(|entry| entry.revision);
        Self { revision: page.revision, entries: entries.into_iter() }
    }
}

impl SnapshotReader for Listed {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn remaining(&self) -> usize {
        self.entries.len()
    }

    fn read(&mut self, bytes: usize) -> Result<Vec<Entry>, Error> {
        let (mut entries, mut read) = (Vec::new(), 0);
        for entry in self.entries.by_ref() {
            read += entry.key.len() + entry.value.len();
            entries.push(entry);
            if read >= bytes {
                break;
            }
        }
        Ok(entries)
    }
}

fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests;
