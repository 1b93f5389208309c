//! SPDY/3.1 frames: encoding and decoding. Headers stay compressed.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::SpdyError;

/// The flag of the last frame that the sender sends on a stream.
const FIN: u8 = 0x01;
/// The largest accepted control frame.
const CONTROL_MAX: usize = 64 << 10;
/// The length of the header of every frame.
const HEAD: usize = 8;

/// Decodes the frames of a connection. Data frames, which may be large, are returned in pieces as they arrive, so only
/// control frames have to be complete in the buffer.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The data frame whose rest is still to come.
    open: Option<OpenFrame>,
}

/// A data frame that has begun.
#[derive(Debug)]
struct OpenFrame {
    stream: u32,
    fin: bool,
    left: usize,
}

/// A frame, or a piece of a data frame; the last piece has its flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Bytes of a stream.
    Data { stream: u32, fin: bool, data: Bytes },
    /// A stream begins.
    SynStream { stream: u32, fin: bool, headers: Bytes },
    /// The stream is accepted.
    SynReply { stream: u32, fin: bool, headers: Bytes },
    /// The stream ends at once.
    RstStream { stream: u32, status: u32 },
    /// A ping, which has to be returned.
    Ping { id: u32 },
    /// No further streams.
    GoAway { last: u32, status: u32 },
    /// Further headers of a stream. They must be read, because all headers of a connection are one compressed stream.
    Headers { stream: u32, fin: bool, headers: Bytes },
    /// A window grows; ignored.
    WindowUpdate { stream: u32, delta: u32 },
    /// Settings and other frames that can be ignored.
    Other,
}

impl Decoder {
    /// Removes the next frame or piece from the buffer; returns `None` until there is one.
    pub(crate) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, SpdyError> {
        if self.open.is_none() {
            match decode(buffer)? {
                Some(Begun::Data(open)) => self.open = Some(open),
                Some(Begun::Control(frame)) => return Ok(Some(frame)),
                None => return Ok(None),
            }
        }
        let Some(OpenFrame { stream, fin, left }) = &mut self.open else { return Ok(None) };
        if buffer.is_empty() && *left > 0 {
            return Ok(None);
        }
        let data = buffer.split_to(buffer.len().min(*left)).freeze();
        *left -= data.len();
        let is_last = *left == 0;
        let piece = Frame::Data { stream: *stream, fin: *fin && is_last, data };
        if is_last {
            self.open = None;
        }
        Ok(Some(piece))
    }
}

/// The beginning of a frame.
enum Begun {
    Control(Frame),
    Data(OpenFrame),
}

/// Removes the next control frame, or the header of the next data frame, from the buffer.
fn decode(buffer: &mut BytesMut) -> Result<Option<Begun>, SpdyError> {
    let Some(&head) = buffer.first_chunk::<HEAD>() else { return Ok(None) };
    let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let flags = head[4];
    let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
    let control = first >> 31 == 1;
    let fin = flags & FIN != 0;
    if !control {
        buffer.advance(HEAD);
        return Ok(Some(Begun::Data(OpenFrame { stream: first, fin, left: length })));
    }
    if length > CONTROL_MAX {
        return Err(SpdyError::TooLarge);
    }
    if buffer.len() < HEAD + length {
        buffer.reserve(HEAD + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(HEAD);
    let body = buffer.split_to(length).freeze();
    if first >> 16 & 0x7fff != 3 {
        return Err(SpdyError::Frame);
    }
    control_frame(first & 0xffff, fin, body).map(|frame| Some(Begun::Control(frame))).ok_or(SpdyError::Frame)
}

fn control_frame(kind: u32, fin: bool, mut body: Bytes) -> Option<Frame> {
    let mut number = || body.try_get_u32().ok().map(|number| number & 0x7fff_ffff);
    Some(match kind {
        1 => {
            let stream = number()?;
            number()?;
            // Priority and slot.
            body.try_get_u16().ok()?;
            Frame::SynStream { stream, fin, headers: body }
        }
        2 => Frame::SynReply { stream: number()?, fin, headers: body },
        3 => Frame::RstStream { stream: number()?, status: body.try_get_u32().ok()? },
        // Pings have no stream and no flags.
        6 => Frame::Ping { id: body.try_get_u32().ok()? },
        7 => Frame::GoAway { last: number()?, status: body.try_get_u32().ok()? },
        8 => Frame::Headers { stream: number()?, fin, headers: body },
        9 => Frame::WindowUpdate { stream: number()?, delta: number()? },
        _ => Frame::Other,
    })
}

/// Appends a frame to the buffer.
pub(crate) fn encode(frame: &Frame, buffer: &mut BytesMut) {
    match frame {
        Frame::Data { stream, fin, data } => {
            buffer.put_u32(stream & 0x7fff_ffff);
            put_flags_and_length(*fin, data.len(), buffer);
            buffer.extend_from_slice(data);
        }
        Frame::SynStream { stream, fin, headers } => {
            put_control(1, *fin, 10 + headers.len(), buffer);
            buffer.put_u32(*stream);
            buffer.put_u32(0);
            buffer.put_u16(0);
            buffer.extend_from_slice(headers);
        }
        Frame::SynReply { stream, fin, headers } => put_headers(2, *stream, *fin, headers, buffer),
        Frame::Headers { stream, fin, headers } => put_headers(8, *stream, *fin, headers, buffer),
        Frame::RstStream { stream, status } => put_pair(3, *stream, *status, buffer),
        Frame::GoAway { last, status } => put_pair(7, *last, *status, buffer),
        Frame::WindowUpdate { stream, delta } => put_pair(9, *stream, *delta, buffer),
        Frame::Ping { id } => {
            put_control(6, false, 4, buffer);
            buffer.put_u32(*id);
        }
        Frame::Other => {}
    }
}

fn put_pair(kind: u16, first: u32, second: u32, buffer: &mut BytesMut) {
    put_control(kind, false, 8, buffer);
    buffer.put_u32(first);
    buffer.put_u32(second);
}

fn put_headers(kind: u16, stream: u32, fin: bool, headers: &[u8], buffer: &mut BytesMut) {
    put_control(kind, fin, 4 + headers.len(), buffer);
    buffer.put_u32(stream);
    buffer.extend_from_slice(headers);
}

fn put_control(kind: u16, fin: bool, length: usize, buffer: &mut BytesMut) {
    buffer.put_u16(0x8003);
    buffer.put_u16(kind);
    put_flags_and_length(fin, length, buffer);
}

fn put_flags_and_length(fin: bool, length: usize, buffer: &mut BytesMut) {
    debug_assert!(length < 1 << 24, "a frame's length has 24 bits");
    buffer.put_u32(u32::from(fin) << 24 | length as u32);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the bytes and the end of each stream in their order, and the other frames.
    fn contents(frames: &[Frame]) -> Vec<String> {
        let contents = frames.iter().flat_map(|frame| match frame {
            Frame::Data { stream, fin, data } => {
                let bytes = data.iter().map(|byte| format!("{stream} {byte}"));
                bytes.chain(fin.then(|| format!("{stream} end"))).collect()
            }
            other => vec![format!("{other:?}")],
        });
        contents.collect()
    }

    #[test]
    fn a_large_data_frame_is_returned_in_pieces() {
        let mut wire = BytesMut::new();
        encode(&Frame::Data { stream: 1, fin: true, data: vec![7; (1 << 24) - 1].into() }, &mut wire);
        let (mut decoder, mut buffer, mut read) = (Decoder::default(), BytesMut::new(), 0);
        for piece in wire.chunks(1000) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                let Frame::Data { stream: 1, fin, data } = frame else { panic!("{frame:?}") };
                read += data.len();
                assert_eq!(fin, read == (1 << 24) - 1);
            }
            assert!(buffer.is_empty(), "{} bytes are kept", buffer.len());
        }
        assert_eq!(read, (1 << 24) - 1);
    }

    fn frames() -> impl Strategy<Value = Frame> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
        let id = || 1..0x7fff_ffff_u32;
        prop_oneof![
            (id(), any::<bool>(), bytes()).prop_map(|(stream, fin, data)| Frame::Data { stream, fin, data }),
            (id(), any::<bool>(), bytes()).prop_map(|(stream, fin, headers)| Frame::SynStream { stream, fin, headers }),
            (id(), any::<bool>(), bytes()).prop_map(|(stream, fin, headers)| Frame::SynReply { stream, fin, headers }),
            (id(), any::<bool>(), bytes()).prop_map(|(stream, fin, headers)| Frame::Headers { stream, fin, headers }),
            (id(), any::<u32>()).prop_map(|(stream, status)| Frame::RstStream { stream, status }),
            (id(), any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
            (id(), id()).prop_map(|(stream, delta)| Frame::WindowUpdate { stream, delta }),
            any::<u32>().prop_map(|id| Frame::Ping { id }),
        ]
    }

    proptest! {
        #[test]
        fn frames_survive_the_wire_however_it_is_cut(frames in proptest::collection::vec(frames(), 0..10), cut in 1..50usize) {
            let mut wire = BytesMut::new();
            frames.iter().for_each(|frame| encode(frame, &mut wire));
            let (mut decoder, mut buffer, mut read) = (Decoder::default(), BytesMut::new(), Vec::new());
            for piece in wire.chunks(cut) {
                buffer.extend_from_slice(piece);
                while let Some(frame) = decoder.decode(&mut buffer).unwrap() {
                    read.push(frame);
                }
            }
            prop_assert_eq!(contents(&read), contents(&frames));
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), control in any::<bool>(), kind in 0..12u8) {
            let mut buffer = BytesMut::from(&bytes[..]);
            if control && buffer.len() > 8 {
                buffer[..7].copy_from_slice(&[0x80, 3, 0, kind, 0, 0, 0]);
            }
            let mut decoder = Decoder::default();
            while let Ok(Some(_)) = decoder.decode(&mut buffer) {}
        }
    }
}
