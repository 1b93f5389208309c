//! SPDY and WebSocket connections.

use bytes::{BufMut as _, BytesMut};
use windlass_apiserver::fuzzing;

use crate::runtime::{run, talk};

/// The bytes that wait between client and server.
const PIPE: usize = 4 << 10;

/// Decodes frames and serves a connection that returns all bytes. The first byte selects the pieces in which the bytes
/// arrive, which must not matter, and whether the rest is raw bytes or lines to make [frames](spdy_wire) from.
pub fn spdy(data: &[u8]) {
    let Some((options, rest)) = data.split_first() else { return };
    let made = options & 0x80 != 0;
    let wire = if made { spdy_wire(rest) } else { rest.to_vec() };
    let frames = fuzzing::spdy_frames(&wire, wire.len());
    assert_eq!(fuzzing::spdy_frames(&wire, usize::from(options & 0x7f)), frames);
    assert_eq!(fuzzing::spdy_frames(&frames.encode(), 7), frames, "frames must survive the round trip");
    let blocks = fuzzing::spdy_headers(rest.split(|byte| *byte == b'\n'));
    let encoded = fuzzing::spdy_header_blocks(&blocks);
    assert_eq!(fuzzing::spdy_headers(encoded.iter().map(Vec::as_slice)), blocks, "headers must survive the round trip");
    run(async {
        let (client, server) = tokio::io::duplex(PIPE);
        let ((), answer) = tokio::join!(fuzzing::echo_spdy(server), talk(client, &wire));
        let frames = fuzzing::spdy_frames(&answer, answer.len());
        assert!(frames.encode().len() <= answer.len(), "the answer must consist of frames");
    });
}

/// Serves a connection that returns all bytes. The first byte has its options, the rest is raw bytes or lines to make
/// [messages](websocket_wire) from.
pub fn websocket(data: &[u8]) {
    let Some((options, rest)) = data.split_first() else { return };
    let wire = if options & 1 == 0 { rest.to_vec() } else { websocket_wire(rest) };
    let (tunnel, closes) = (options & 2 != 0, options & 4 != 0);
    run(async {
        let (client, server) = tokio::io::duplex(PIPE);
        let serving = async {
            if tunnel {
                fuzzing::echo_tunnel(server).await;
            } else {
                fuzzing::echo_channels(server, closes).await;
            }
        };
        tokio::join!(serving, talk(client, &wire));
    });
}

/// Makes SPDY frames from lines: the type of the frame, in upper case if it is the last one of its stream, a digit as
/// stream, and the data, or the headers as a query.
pub(crate) fn spdy_wire(lines: &[u8]) -> Vec<u8> {
    let lines: Vec<(u8, u32, &[u8])> = lines
        .split(|byte| *byte == b'\n')
        .filter_map(|line| match line {
            [kind, stream, rest @ ..] => Some((*kind, u32::from(stream.wrapping_sub(b'0')), rest)),
            _ => None,
        })
        .collect();
    let has_headers = |kind: u8| matches!(kind.to_ascii_lowercase(), b's' | b'h' | b'a');
    let headers: Vec<Vec<(String, String)>> = lines
        .iter()
        .filter(|(kind, ..)| has_headers(*kind))
        .map(|(_, _, text)| fuzzing::parse_query(&String::from_utf8_lossy(text)))
        .collect();
    let mut blocks = fuzzing::spdy_header_blocks(&headers).into_iter();
    let mut wire = BytesMut::new();
    for (kind, stream, rest) in lines {
        let fin = kind.is_ascii_uppercase();
        let headers = if has_headers(kind) { blocks.next().unwrap_or_default() } else { Vec::new() };
        let mut body = stream.to_be_bytes().to_vec();
        let control = match kind.to_ascii_lowercase() {
            b's' => {
                body.extend_from_slice(&[0; 6]);
                1
            }
            b'a' => 2,
            b'r' => 3,
            b'n' => 4,
            b'p' => 6,
            b'g' => 7,
            b'h' => 8,
            b'w' => 9,
            _ => {
                wire.put_u32(stream);
                wire.put_u32(u32::from(fin) << 24 | rest.len() as u32);
                wire.extend_from_slice(rest);
                continue;
            }
        };
        if has_headers(kind) {
            body.extend_from_slice(&headers)
        } else {
            body.extend_from_slice(rest)
        }
        wire.put_u16(0x8003);
        wire.put_u16(control);
        wire.put_u32(u32::from(fin) << 24 | body.len() as u32);
        wire.extend_from_slice(&body);
    }
    wire.to_vec()
}

/// Makes WebSocket messages from lines: the operation as a hexadecimal digit, and the payload. Digits from `g` on are
/// fragments: messages that continue.
pub(crate) fn websocket_wire(lines: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Some((digit, payload)) = line.split_first() else { continue };
        let digit = char::from(*digit).to_digit(36).unwrap_or(2) as u8;
        websocket_message(digit & 0xf, digit < 16, payload, &mut wire);
    }
    wire
}

/// Appends a frame of a client, with a mask that changes nothing.
pub(crate) fn websocket_message(operation: u8, last: bool, payload: &[u8], wire: &mut Vec<u8>) {
    wire.push(u8::from(last) << 7 | operation);
    match payload.len() {
        short @ 0..126 => wire.push(0x80 | short as u8),
        long => {
            wire.push(0x80 | 126);
            wire.extend_from_slice(&(long.min(0xffff) as u16).to_be_bytes());
        }
    }
    wire.extend_from_slice(&[0; 4]);
    wire.extend_from_slice(&payload[..payload.len().min(0xffff)]);
}
