//! Lines of a stream that comes in pieces.

use std::io::BufRead;

use bytes::{Buf, Bytes, BytesMut};

use super::DecodeError;

/// The longest line taken. Objects are limited to a few megabytes by every server; a line beyond this is no event.
const LONGEST: usize = 64 << 20;

/// Cuts a stream into lines, wherever the pieces were cut.
#[derive(Default)]
pub(crate) struct Lines {
    held: Bytes,
    /// So much of what is held has no end of line in it.
    searched: usize,
}

impl Lines {
    /// The next piece came.
    pub(crate) fn feed(&mut self, piece: Bytes) {
        self.held = join(std::mem::take(&mut self.held), piece);
    }

    /// The next whole line, without its end; none until more has come. Empty lines are passed over.
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

/// One after the other, in one piece; only what was held is copied where nothing was.
pub(super) fn join(held: Bytes, piece: Bytes) -> Bytes {
    if !held.has_remaining() {
        return piece;
    }
    let mut joined = BytesMut::from(held);
    joined.extend_from_slice(&piece);
    joined.freeze()
}
