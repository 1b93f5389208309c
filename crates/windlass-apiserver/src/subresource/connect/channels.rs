//! Channels over a WebSocket: each message begins with the number of its channel.

use std::{collections::HashMap, time::Duration};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream},
    sync::mpsc,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message, Utf8Bytes,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use super::{
    next_piece,
    pieces::{Budget, Piece},
};
use crate::body::Chunks;

/// The number of pieces that wait to be sent. Each is at most one read, some ten kilobytes.
pub(crate) const OUTGOING: usize = 16;
/// The channel of messages that close another one, from version 5 on.
const CLOSE: u8 = 255;
/// The close frame of a connection that has served its purpose. Clients treat any other as a failure.
const NORMAL: CloseFrame = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::from_static("") };
/// Maximum time for a client to acknowledge the close.
const GOODBYE: Duration = Duration::from_secs(2);

/// A message for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// Bytes on a channel or stream.
    Data(u32, Bytes),
    /// The end of a channel or stream.
    Close(u32),
}

/// A message from the client.
#[derive(Debug, PartialEq, Eq)]
enum Incoming {
    Data(u8, Bytes),
    Close(u8),
    Nothing,
}

fn parse(mut message: Bytes, closes: bool) -> Incoming {
    if message.is_empty() {
        return Incoming::Nothing;
    }
    let channel = message.split_to(1)[0];
    match (channel, message.first()) {
        (CLOSE, Some(&closed)) if closes => Incoming::Close(closed),
        (_, None) => Incoming::Nothing,
        _ => Incoming::Data(channel, message),
    }
}

/// Carries channels over a WebSocket, until the client disconnects or all senders are dropped. `closes` is whether
/// messages can close a channel.
pub(crate) async fn run<T>(
    socket: WebSocketStream<T>,
    mut incoming: HashMap<u8, mpsc::Sender<Piece>>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    closes: bool,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sink, mut source) = socket.split();
    let budget = Budget::new();
    let reading = async {
        while let Some(Ok(message)) = source.next().await {
            match message {
                Message::Binary(_) | Message::Text(_) => match parse(message.into_data(), closes) {
                    Incoming::Data(channel, data) => {
                        if let Some(sender) = incoming.get(&channel) {
                            budget.send(sender, &data).await;
                        }
                    }
                    Incoming::Close(channel) => drop(incoming.remove(&channel)),
                    Incoming::Nothing => {}
                },
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    tokio::pin!(reading);
    let writing = async {
        while let Some(sent) = outgoing.recv().await {
            let message = match sent {
                Outgoing::Data(channel, data) => {
                    let mut message = BytesMut::with_capacity(1 + data.len());
                    message.put_u8(channel as u8);
                    message.extend_from_slice(&data);
                    message
                }
                // Clients know no such message: for them the channel ends with the connection.
                Outgoing::Close(_) => continue,
            };
            if sink.send(Message::Binary(message.freeze())).await.is_err() {
                return;
            }
        }
        let _ = sink.send(Message::Close(Some(NORMAL))).await;
    };
    tokio::select! {
        () = &mut reading => {}
        () = writing => {
            // The client answers the close; disconnecting before that could lose the last bytes.
            let _ = tokio::time::timeout(GOODBYE, reading).await;
        }
    }
}

/// Sends pieces as messages without a channel, until they end or the client disconnects.
pub(crate) async fn send<T>(socket: WebSocketStream<T>, mut pieces: Chunks)
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sink, mut source) = socket.split();
    let reading = async {
        while let Some(Ok(message)) = source.next().await {
            if let Message::Close(_) = message {
                return;
            }
        }
    };
    tokio::pin!(reading);
    let writing = async {
        while let Some(piece) = pieces.next().await {
            if sink.send(Message::Binary(piece)).await.is_err() {
                return;
            }
        }
        let _ = sink.send(Message::Close(Some(NORMAL))).await;
    };
    tokio::select! {
        () = &mut reading => {}
        () = writing => {
            let _ = tokio::time::timeout(GOODBYE, reading).await;
        }
    }
}

/// Returns the plain bytes of binary messages as one stream in each direction, and the future that carries them.
pub(crate) fn tunnel<T>(socket: WebSocketStream<T>) -> (DuplexStream, impl Future<Output = ()> + Send)
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (near, far) = tokio::io::duplex(64 << 10);
    let carrying = async move {
        let (mut sink, mut source) = socket.split();
        let (mut read, mut write) = tokio::io::split(far);
        let inwards = async {
            while let Some(Ok(message)) = source.next().await {
                let sent = match message {
                    Message::Binary(data) => write.write_all(&data).await,
                    Message::Close(_) => break,
                    _ => Ok(()),
                };
                if sent.is_err() {
                    break;
                }
            }
        };
        let outwards = async {
            let mut buffer = BytesMut::new();
            while let Some(piece) = next_piece(&mut read, &mut buffer).await {
                if sink.send(Message::Binary(piece)).await.is_err() {
                    return;
                }
            }
            let _ = sink.send(Message::Close(Some(NORMAL))).await;
        };
        tokio::select! {
            () = inwards => {}
            () = outwards => {}
        }
    };
    (near, carrying)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_carries_data_of_a_channel_or_closes_one() {
        for (message, closes, expected) in [
            (&b"\x00hi"[..], true, Incoming::Data(0, Bytes::from_static(b"hi"))),
            (b"\x00", true, Incoming::Nothing),
            (b"", true, Incoming::Nothing),
            (b"\xff\x00", true, Incoming::Close(0)),
            (b"\xff\x00", false, Incoming::Data(255, Bytes::from_static(b"\0"))),
        ] {
            assert_eq!(parse(Bytes::from_static(message), closes), expected);
        }
    }

    proptest! {
        #[test]
        fn no_message_panics(message in proptest::collection::vec(any::<u8>(), 0..20), closes in any::<bool>()) {
            parse(message.into(), closes);
        }
    }
}
