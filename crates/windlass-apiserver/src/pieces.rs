//! Long responses in pieces, each encoded when the connection takes it.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};

/// The size of a piece: below the size above which allocators request fresh pages from the system.
pub(crate) const PIECE: usize = 64 << 10;

/// Returns the capacity for a piece of items that are as large as the first: a piece ends with the item that fills it.
pub(crate) fn room_for(first: usize, items: usize) -> usize {
    first.saturating_add(1).saturating_mul(items).min(PIECE.saturating_add(first))
}

/// Counts the bytes of pieces that are in memory: shared ones, and pieces that a connection has not sent yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    /// Returns a piece that is counted until its last copy is dropped.
    pub(crate) fn hold(&self, piece: Vec<u8>) -> Bytes {
        self.0.fetch_add(piece.capacity(), Ordering::Relaxed);
        Bytes::from_owner(Held { piece, count: self.clone() })
    }

    /// Returns the number of bytes at present.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

struct Held {
    piece: Vec<u8>,
    count: HeldBytes,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.piece.capacity(), Ordering::Relaxed);
    }
}

/// Pieces, compressed.
pub(crate) struct Gzip<I> {
    pieces: I,
    /// `None` at the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
    held: HeldBytes,
}

impl<I> Gzip<I> {
    pub(crate) fn new(pieces: I, held: HeldBytes) -> Self {
        Self { pieces, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())), held }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Gzip<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let written = match self.pieces.next() {
                // Writing to memory does not fail.
                Some(piece) => encoder.write_all(&piece).map(|()| std::mem::take(encoder.get_mut())),
                None => self.encoder.take()?.finish(),
            };
            match written {
                Ok(compressed) if !compressed.is_empty() => return Some(self.held.hold(compressed)),
                Ok(_) => {}
                Err(_) => self.encoder = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn compressed_pieces_are_one_stream() {
        // Numbers, so that they do not compress to nothing.
        let text = |number: u32| (number * 50_000..(number + 1) * 50_000).map(|n| n.to_string()).collect::<String>();
        for count in [0, 1, 20] {
            let held = HeldBytes::default();
            let pieces = (0..count).map(|number| Bytes::from(text(number)));
            let compressed: Vec<Bytes> = Gzip::new(pieces, held.clone()).collect();
            let mut plain = String::new();
            GzDecoder::new(&*compressed.concat()).read_to_string(&mut plain).unwrap();
            assert_eq!(plain, (0..count).map(text).collect::<String>());
            assert!(count < 20 || compressed.len() > 10, "{} pieces", compressed.len());
            assert!(held.count() >= compressed.iter().map(Bytes::len).sum());
            drop(compressed);
            assert_eq!(held.count(), 0);
        }
    }
}
