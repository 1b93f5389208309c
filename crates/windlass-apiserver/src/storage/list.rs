//! Complete lists, encoded piece by piece while they are sent.
//!
//! Informers that start together all request the same list, so its pieces are shared until the resource changes. A
//! reader does not keep the shared pieces: it holds a snapshot of the cache, from which it encodes what it still needs if
//! the resource has changed since. So of the encoded list, a slow reader costs one piece, however long the list is. Its
//! snapshot costs the objects that were replaced or deleted since, until the reader is done or the time limit of its
//! request has passed ([`crate::body::TimedChunks`]); until then it also occupies the seats of its request.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use windlass_store::Revision;

use super::{cache::Snapshot, object::StoredObject};
use crate::pieces::{HeldBytes, PIECE, room_for};

/// The size up to which a list is shared.
const SHARE_UP_TO: usize = 16 << 20;

/// The pieces of a list that were encoded so far, of the objects under a prefix at a revision of the cache.
pub(super) struct SharedList {
    pub(super) prefix: String,
    pub(super) revision: Revision,
    pieces: Mutex<SharedPieces>,
}

#[derive(Default)]
struct SharedPieces {
    pieces: Vec<Piece>,
    size: usize,
}

/// Consecutive items.
#[derive(Clone)]
struct Piece {
    bytes: Bytes,
    /// The key of the last item.
    last: Arc<str>,
}

impl SharedList {
    pub(super) fn new(prefix: &str, revision: Revision) -> Self {
        Self { prefix: prefix.to_owned(), revision, pieces: Mutex::default() }
    }

    fn get(&self, index: usize) -> Option<Piece> {
        self.pieces.lock().pieces.get(index).cloned()
    }

    /// Shares a piece, unless another reader has done so or the list is too long.
    fn share(&self, index: usize, piece: &Piece) {
        let mut shared = self.pieces.lock();
        if shared.pieces.len() != index {
            return;
        }
        shared.size += piece.bytes.len();
        if shared.size <= SHARE_UP_TO {
            shared.pieces.push(piece.clone());
        } else {
            // Every reader would have to encode the rest of it anyway.
            shared.pieces = Vec::new();
        }
    }
}

/// A reader of all items under a prefix. Items are separated by commas.
#[derive(Clone)]
pub(crate) struct WholeList {
    snapshot: Snapshot,
    prefix: String,
    /// Whether items have kind and apiVersion, as those of custom resources do.
    typed: bool,
    held: HeldBytes,
    shared: Weak<SharedList>,
    /// The number of pieces read so far.
    read: usize,
    /// The key of the last item read.
    last: Option<Arc<str>>,
}

impl WholeList {
    pub(super) fn new(
        snapshot: Snapshot,
        prefix: &str,
        typed: bool,
        held: HeldBytes,
        shared: Weak<SharedList>,
    ) -> Self {
        Self { snapshot, prefix: prefix.to_owned(), typed, held, shared, read: 0, last: None }
    }

    fn encode(&self) -> Option<Piece> {
        let mut range = self.snapshot.range_shared(&self.prefix, self.last.clone()).peekable();
        let (_, first) = range.peek()?;
        let mut out = Vec::with_capacity(room_for(first.object.size(), self.snapshot.len()));
        let mut last = None;
        for (key, cached) in range {
            if self.last.is_some() || last.is_some() {
                out.push(b',');
            }
            write_item(&cached.object, self.typed, &mut out);
            last = Some(key);
            if out.len() >= PIECE {
                break;
            }
        }
        Some(Piece { last: last?.clone(), bytes: self.held.hold(out) })
    }
}

impl Iterator for WholeList {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let shared = self.shared.upgrade();
        let piece = match shared.as_ref().and_then(|shared| shared.get(self.read)) {
            Some(piece) => piece,
            None => {
                let piece = self.encode()?;
                if let Some(shared) = &shared {
                    shared.share(self.read, &piece);
                }
                piece
            }
        };
        self.read += 1;
        self.last = Some(piece.last);
        Some(piece.bytes)
    }
}

/// Writes an object as an item of a list; those of built-in kinds have no kind and apiVersion.
pub(crate) fn write_item(object: &StoredObject, typed: bool, out: &mut Vec<u8>) {
    if typed {
        out.extend_from_slice(object.bytes());
    } else {
        object.write_untyped(out);
    }
}
