//! Lines of a stream that arrives in pieces.

use std::io::BufRead;

use bytes::{Buf, Bytes, BytesMut};

use super::DecodeError;

/// Maximum length of a line. Every server limits objects to a few megabytes, so a longer line is not an event.
const LONGEST: usize = 64 << 20;

/// Splits a stream into lines.
#[derive(Default)]
pub(crate) struct Lines {
    held: Bytes,
    /// Number of bytes that are known to contain no line end.
    searched: usize,
}

impl Lines {
    /// Adds the next piece.
    pub(crate) fn feed(&mut self, piece: Bytes) {
        self.held = join(std::mem::take(&mut self.held), piece);
    }

    /// Returns the next complete line, without its end; `None` until more data arrives. Empty lines are skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, DecodeError> {
        loop {
            let mut rest = &self.held[self.searched..];
            let found = rest.skip_until(b'\n').expect("reading from memory must succeed");
            let end = self.searched + found;
            if found == 0 || self.held[end - 1] != b'\n' {
                self.searched = end;
                return if end > LONGEST { Err(DecodeError::Long(LONGEST)) } else { Ok(None) };
            }
            let line = self.held.split_to(end);
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

/// Concatenates two pieces, without a copy if the first is empty.
pub(super) fn join(held: Bytes, piece: Bytes) -> Bytes {
    if !held.has_remaining() {
        return piece;
    }
    let mut joined = BytesMut::from(held);
    joined.extend_from_slice(&piece);
    joined.freeze()
}
