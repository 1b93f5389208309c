//! Protocols with streams: SPDY and WebSocket channels.

use std::collections::HashMap;

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinSet,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::protocol::{Role, WebSocketConfig},
};

use crate::subresource::connect::{
    channels::{self, OUTGOING, Outgoing},
    pieces::{self, Piece},
    spdy::{
        frame::{self, Decoder, Frame},
        headers::{Reader, Writer},
        session,
    },
    upgrade::websocket_config,
};

/// SPDY frames, without the borders of data frames, which depend on how they arrive.
#[derive(Debug, PartialEq, Eq)]
pub struct Frames(Vec<Frame>);

impl Frames {
    /// Returns the bytes of the frames.
    pub fn encode(&self) -> Vec<u8> {
        let mut wire = BytesMut::new();
        self.0.iter().for_each(|frame| frame::encode(frame, &mut wire));
        wire.to_vec()
    }
}

/// Decodes frames that arrive in pieces of `cut` bytes, up to the first malformed one.
pub fn spdy_frames(wire: &[u8], cut: usize) -> Frames {
    let (mut decoder, mut buffer, mut frames) = (Decoder::default(), BytesMut::new(), Vec::new());
    for piece in wire.chunks(cut.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(frame)) => add(&mut frames, frame),
                Ok(None) => break,
                Err(_) => return Frames(frames),
            }
        }
    }
    Frames(frames)
}

/// Adds a frame. Bytes of a stream that follow each other become one frame.
fn add(frames: &mut Vec<Frame>, frame: Frame) {
    match (frames.last_mut(), frame) {
        // Not encoded.
        (_, Frame::Other) => {}
        (Some(Frame::Data { stream, fin, data }), Frame::Data { stream: same, fin: last, data: more })
            if *stream == same && !*fin =>
        {
            *data = [&data[..], &more].concat().into();
            *fin = last;
        }
        (_, frame) => frames.push(frame),
    }
}

/// Decompresses blocks of headers, up to the first malformed one.
pub fn spdy_headers<'a>(blocks: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<(String, String)>> {
    let mut reader = Reader::new();
    blocks.map_while(|block| reader.read(block).ok()).collect()
}

/// Compresses blocks of headers.
pub fn spdy_header_blocks(blocks: &[Vec<(String, String)>]) -> Vec<Vec<u8>> {
    let mut writer = Writer::new();
    blocks.iter().map(|block| writer.write(block)).collect()
}

/// Serves a SPDY connection, and returns the bytes of every stream to the client. Ends with the connection.
pub async fn echo_spdy(io: impl AsyncRead + AsyncWrite + Send) {
    let (mut opened, carrying) = session::session(io);
    let serving = async {
        let mut running = JoinSet::new();
        while let Some(stream) = opened.recv().await {
            running.spawn(echo(stream.id, stream.incoming, stream.outgoing));
        }
        while running.join_next().await.is_some() {}
    };
    tokio::join!(carrying, serving);
}

/// Serves channels over a WebSocket, and returns the bytes of the first five to the client.
pub async fn echo_channels(io: impl AsyncRead + AsyncWrite + Unpin + Send, closes: bool) {
    let (outgoing, to_client) = mpsc::channel(OUTGOING);
    let mut running = JoinSet::new();
    let mut incoming = HashMap::new();
    for channel in 0..5 {
        let (sender, receiver) = pieces::queue();
        incoming.insert(channel, sender);
        running.spawn(echo(channel.into(), receiver, outgoing.clone()));
    }
    drop(outgoing);
    channels::run(websocket(io).await, incoming, to_client, closes).await;
    while running.join_next().await.is_some() {}
}

/// Serves a SPDY connection within a WebSocket, and returns the bytes of every stream to the client.
pub async fn echo_tunnel(io: impl AsyncRead + AsyncWrite + Unpin + Send) {
    let (inner, tunnel) = channels::tunnel(websocket(io).await);
    tokio::select! {
        () = tunnel => {}
        () = echo_spdy(inner) => {}
    }
}

async fn websocket<T: AsyncRead + AsyncWrite + Unpin>(io: T) -> WebSocketStream<T> {
    let config: WebSocketConfig = websocket_config();
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

async fn echo(id: u32, mut from: mpsc::Receiver<Piece>, to: mpsc::Sender<Outgoing>) {
    while let Some(piece) = from.recv().await {
        if to.send(Outgoing::Data(id, piece.bytes)).await.is_err() {
            return;
        }
    }
    let _ = to.send(Outgoing::Close(id)).await;
}
