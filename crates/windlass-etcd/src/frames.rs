//! Messages in a stream of bytes: each begins with a flag (compressed or not) and its size.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message;

/// Largest message that is accepted. etcd sends no larger ones.
const LARGEST: usize = i32::MAX as usize;
/// Size of what precedes a message.
const HEADER: usize = 5;

/// Reasons why a stream is not one of messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a message is compressed")]
    Compressed,
    #[error("a message has {0} bytes")]
    TooLarge(usize),
}

/// Encodes a message with its header.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    let size = message.encoded_len();
    let mut out = BytesMut::with_capacity(HEADER + size);
    out.put_u8(0);
    // Requests are limited to a few megabytes before they are encoded.
    out.put_u32(u32::try_from(size).unwrap_or(u32::MAX));
    message.encode(&mut out).expect("the buffer must grow as needed");
    out.freeze()
}

/// Collects bytes until they are whole messages.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    buffer: BytesMut,
}

impl Frames {
    /// Adds bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole message.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some((header, rest)) = self.buffer.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [flag, size @ ..] = *header;
        if flag != 0 {
            return Err(FrameError::Compressed);
        }
        let size = usize::try_from(u32::from_be_bytes(size)).unwrap_or(usize::MAX);
        if size > LARGEST {
            return Err(FrameError::TooLarge(size));
        }
        if rest.len() < size {
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        Ok(Some(self.buffer.split_to(size).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::CompactionRequest;

    #[test]
    fn messages_are_found_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        for revision in [0, 5, i64::MAX] {
            stream.extend_from_slice(&encode(&CompactionRequest { revision }));
        }
        for piece in 1..=stream.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for bytes in stream.chunks(piece) {
                frames.push(bytes);
                while let Some(message) = frames.next().unwrap() {
                    found.push(CompactionRequest::decode(message).unwrap().revision);
                }
            }
            assert_eq!(found, [0, 5, i64::MAX], "pieces of {piece} bytes");
            assert!(frames.buffer.is_empty());
        }
    }

    #[test]
    fn what_is_not_a_message_is_an_error() {
        let next = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.next()
        };
        assert_eq!(next(&[1, 0, 0, 0, 0]), Err(FrameError::Compressed));
        assert_eq!(next(&[0, 0x80, 0, 0, 0]), Err(FrameError::TooLarge(1 << 31)));
        assert_eq!(next(&[0, 0x7f, 0xff, 0xff, 0xff]), Ok(None));
        assert_eq!(next(&[0, 0, 0, 0]), Ok(None));
    }
}
