//! A SPDY connection: streams that the client opens, each with its headers, its incoming data, and a way to answer.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use super::{
    SpdyError,
    frame::{self, Decoder, Frame},
    headers::{Headers, Reader, Writer},
};
use crate::subresource::connect::{
    channels::{OUTGOING, Outgoing},
    pieces::{self, Budget, Piece},
};

/// The number of new streams that wait to be accepted.
const NEW_STREAMS: usize = 16;
/// The maximum number of open streams per client.
const STREAMS_MAX: usize = 2048;
/// The status of a rejected stream.
const REFUSED_STREAM: u32 = 3;
/// Maximum size of the data in a frame.
const PIECE: usize = 32 << 10;

/// The headers that the server reads; others are not kept.
const NAMES: [&str; 3] = ["streamtype", "port", "requestid"];
/// Maximum length of a header value that is kept.
const VALUE_MAX: usize = 256;

/// A stream that the client has opened.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) headers: Headers,
    /// The incoming data; ends when the client closes its side.
    pub(crate) incoming: mpsc::Receiver<Piece>,
    /// Accepts data for the client, under `id`.
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
}

impl Stream {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(have, _)| have == name).map_or("", |(_, value)| value)
    }
}

/// Starts a session: streams that the client opens arrive at the receiver. The future drives the connection; it ends
/// when the client disconnects, or when all senders are dropped.
pub(crate) fn session<T>(io: T) -> (mpsc::Receiver<Stream>, impl Future<Output = ()> + Send)
where
    T: AsyncRead + AsyncWrite + Send,
{
    let (streams, opened) = mpsc::channel(NEW_STREAMS);
    (opened, run(io, streams))
}

async fn run<T: AsyncRead + AsyncWrite + Send>(io: T, streams: mpsc::Sender<Stream>) {
    let (mut read, mut write) = tokio::io::split(io);
    let (sender, mut outgoing) = mpsc::channel(OUTGOING);
    let (control, mut answers) = mpsc::channel::<Frame>(OUTGOING);
    let reading = async move {
        let mut connection = Connection {
            streams,
            incoming: HashMap::new(),
            budget: Budget::new(),
            reader: Reader::new(),
            sender: Some(sender),
        };
        let mut decoder = Decoder::default();
        let mut buffer = BytesMut::with_capacity(16 << 10);
        loop {
            while let Some(frame) = decoder.decode(&mut buffer)? {
                connection.receive(frame, &control).await?;
            }
            match read.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return Ok::<(), SpdyError>(()),
                Ok(_) => {}
            }
        }
    };
    let writing = async move {
        let mut headers = Writer::new();
        let mut buffer = BytesMut::new();
        loop {
            tokio::select! {
                biased;
                answer = answers.recv() => match answer {
                    Some(Frame::SynReply { stream, fin, .. }) => {
                        let headers = headers.write(&Headers::new()).into();
                        frame::encode(&Frame::SynReply { stream, fin, headers }, &mut buffer);
                    }
                    Some(answer) => frame::encode(&answer, &mut buffer),
                    None => return,
                },
                sent = outgoing.recv() => match sent {
                    Some(sent) => encode(sent, &mut buffer),
                    None => return,
                },
            }
            if write.write_all_buf(&mut buffer).await.is_err() || write.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        result = reading => if let Err(error) = result {
            tracing::debug!(%error, "SPDY connection ended");
        },
        () = writing => {}
    }
}

fn encode(sent: Outgoing, buffer: &mut BytesMut) {
    match sent {
        Outgoing::Data(stream, mut data) => {
            while !data.is_empty() {
                let piece = data.split_to(data.len().min(PIECE));
                frame::encode(&Frame::Data { stream, fin: false, data: piece }, buffer);
            }
        }
        Outgoing::Close(stream) => frame::encode(&Frame::Data { stream, fin: true, data: Bytes::new() }, buffer),
    }
}

/// The state of the receiving side.
struct Connection {
    streams: mpsc::Sender<Stream>,
    incoming: HashMap<u32, mpsc::Sender<Piece>>,
    budget: Budget,
    reader: Reader,
    /// Cloned for every stream; dropped when the client opens no more streams.
    sender: Option<mpsc::Sender<Outgoing>>,
}

impl Connection {
    /// Handles a frame. Answers go to `answers`; if they are not received, the connection is about to end.
    async fn receive(&mut self, frame: Frame, answers: &mpsc::Sender<Frame>) -> Result<(), SpdyError> {
        match frame {
            Frame::SynStream { stream, fin, headers } => {
                let mut headers = self.reader.read(&headers)?;
                headers.retain(|(name, value)| NAMES.contains(&name.as_str()) && value.len() <= VALUE_MAX);
                let known = self.incoming.contains_key(&stream);
                let Some(outgoing) = self.sender.clone().filter(|_| !known && self.incoming.len() < STREAMS_MAX) else {
                    let _ = answers.send(Frame::RstStream { stream, status: REFUSED_STREAM }).await;
                    return Ok(());
                };
                // The reply must precede all data on the stream.
                let _ = answers.send(Frame::SynReply { stream, fin: false, headers: Bytes::new() }).await;
                let (sender, incoming) = pieces::queue();
                if !fin {
                    self.incoming.insert(stream, sender);
                }
                let opened = Stream { id: stream, headers, incoming, outgoing };
                if self.streams.send(opened).await.is_err() {
                    self.incoming.remove(&stream);
                    let _ = answers.send(Frame::RstStream { stream, status: REFUSED_STREAM }).await;
                }
            }
            Frame::Data { stream, fin, data } => {
                if let Some(sender) = self.incoming.get(&stream) {
                    self.budget.send(sender, &data).await;
                }
                if fin {
                    self.incoming.remove(&stream);
                }
            }
            Frame::Headers { stream, fin, headers } => {
                self.reader.read(&headers)?;
                if fin {
                    self.incoming.remove(&stream);
                }
            }
            Frame::SynReply { headers, .. } => {
                self.reader.read(&headers)?;
            }
            Frame::RstStream { stream, .. } => {
                self.incoming.remove(&stream);
            }
            // The client's pings are odd; even ones would answer pings of the server.
            Frame::Ping { id } if id % 2 == 1 => {
                let _ = answers.send(Frame::Ping { id }).await;
            }
            Frame::GoAway { .. } => self.sender = None,
            Frame::Ping { .. } | Frame::WindowUpdate { .. } | Frame::Other => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a client's frames, and returns the responses.
    async fn talk(client: &mut tokio::io::DuplexStream, frames: &[Frame], expected: usize) -> Vec<Frame> {
        let mut wire = BytesMut::new();
        frames.iter().for_each(|frame| frame::encode(frame, &mut wire));
        client.write_all(&wire).await.unwrap();
        let (mut decoder, mut buffer, mut answers) = (Decoder::default(), BytesMut::new(), Vec::new());
        while answers.len() < expected {
            match decoder.decode(&mut buffer).unwrap() {
                Some(frame) => answers.push(frame),
                None => assert_ne!(client.read_buf(&mut buffer).await.unwrap(), 0, "the connection ended"),
            }
        }
        answers
    }

    #[tokio::test]
    async fn a_stream_carries_bytes_in_both_directions() {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let (mut opened, connection) = session(server);
        let running = tokio::spawn(connection);
        let headers = Writer::new().write(&vec![("streamtype".to_owned(), "data".to_owned())]).into();
        let frames = [
            Frame::SynStream { stream: 1, fin: false, headers },
            Frame::Data { stream: 1, fin: true, data: Bytes::from_static(b"hello") },
            Frame::Ping { id: 7 },
        ];
        let answers = talk(&mut client, &frames, 2).await;
        assert!(matches!(&answers[0], Frame::SynReply { stream: 1, fin: false, .. }), "{answers:?}");
        assert_eq!(answers[1], Frame::Ping { id: 7 });
        let mut stream = opened.recv().await.unwrap();
        assert_eq!(stream.header("streamtype"), "data");
        assert_eq!(stream.incoming.recv().await.unwrap().bytes, "hello");
        assert!(stream.incoming.recv().await.is_none());
        stream.outgoing.send(Outgoing::Data(1, Bytes::from_static(b"world"))).await.unwrap();
        stream.outgoing.send(Outgoing::Close(1)).await.unwrap();
        let answers = talk(&mut client, &[], 2).await;
        assert_eq!(answers[0], Frame::Data { stream: 1, fin: false, data: Bytes::from_static(b"world") });
        assert_eq!(answers[1], Frame::Data { stream: 1, fin: true, data: Bytes::new() });
        drop(client);
        running.await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_is_not_read_while_its_data_is_not_consumed() {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let (mut opened, connection) = session(server);
        let running = tokio::spawn(connection);
        let mut writer = Writer::new();
        let mut wire = BytesMut::new();
        for stream in (1..20).step_by(2) {
            let headers = writer.write(&vec![("streamtype".to_owned(), "x".repeat(1 << 14))]).into();
            frame::encode(&Frame::SynStream { stream, fin: false, headers }, &mut wire);
            frame::encode(&Frame::Data { stream, fin: true, data: vec![0; 1 << 20].into() }, &mut wire);
        }
        let (mut taken, mut streams) = (0, Vec::new());
        loop {
            tokio::select! {
                biased;
                written = client.write(&wire[taken..]) => taken += written.unwrap(),
                stream = opened.recv() => streams.push(stream.unwrap()),
                // Nothing can proceed: the client cannot write, and there is no new stream.
                () = blocked() => break,
            }
        }
        assert!(taken < 2 << 20, "{taken} bytes were read without a reader");
        assert!(streams.iter().all(|stream| stream.header("streamtype").is_empty()), "long headers are kept");
        // Readers that catch up get everything.
        let writing = async { client.write_all(&wire[taken..]).await.unwrap() };
        let reading = async {
            let mut read = 0;
            for at in 0..10 {
                if at == streams.len() {
                    streams.push(opened.recv().await.unwrap());
                }
                while let Some(piece) = streams[at].incoming.recv().await {
                    read += piece.bytes.len();
                }
            }
            read
        };
        let ((), read) = tokio::join!(writing, reading);
        assert_eq!(read, 10 << 20);
        drop(client);
        running.await.unwrap();
    }

    /// Resolves when all other tasks of a current-thread runtime have run until they wait.
    async fn blocked() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn malformed_headers_end_the_connection() {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let (_opened, connection) = session(server);
        let running = tokio::spawn(connection);
        let mut wire = BytesMut::new();
        let headers = Bytes::from_static(b"not zlib");
        frame::encode(&Frame::SynStream { stream: 1, fin: false, headers }, &mut wire);
        client.write_all(&wire).await.unwrap();
        running.await.unwrap();
    }
}
