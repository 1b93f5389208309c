//! A gRPC server in this process.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use prost::Message;
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};

use crate::{
    EtcdOptions,
    frames::{self, Frames},
    messages::{
        KeyValue, RANGE, RangeRequest, RangeResponse, ResponseHeader, STATUS, StatusResponse, WATCH, WatchCommand,
        WatchCreateRequest, WatchRequest, WatchResponse,
    },
};

/// The cluster that responses are from.
pub(super) const CLUSTER: u64 = 7;

/// A response of the server.
pub(super) enum Reply {
    /// A message.
    Message(Bytes),
    /// A status with an error.
    Status(u32, &'static str),
    /// None: the stream is reset.
    Reset,
}

impl Reply {
    pub(super) fn of(message: &impl Message) -> Self {
        Self::Message(frames::encode(message))
    }
}

/// A watch that a client has started.
pub(super) struct FakeWatch {
    pub(super) create: WatchCreateRequest,
    pub(super) headers: HeaderMap,
    /// Requests that the client sent afterwards.
    pub(super) requests: mpsc::Receiver<WatchRequest>,
    answers: mpsc::Sender<io::Result<Frame<Bytes>>>,
}

impl FakeWatch {
    pub(super) async fn send(&self, answer: &WatchResponse) {
        let _ = self.answers.send(Ok(Frame::data(frames::encode(answer)))).await;
    }

    /// Ends the stream with an error.
    pub(super) async fn reset(self) {
        let _ = self.answers.send(Err(io::Error::other("reset by the test"))).await;
    }
}

type Answerer = dyn Fn(&str, Bytes) -> Option<Reply> + Send + Sync;

/// A server; it ends with this.
pub(super) struct Fake {
    url: String,
    /// The paths of all calls, in order.
    calls: Arc<Mutex<Vec<String>>>,
    pub(super) watches: mpsc::Receiver<FakeWatch>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    /// Starts a server. Calls that `answer` leaves out get the status of a healthy member.
    pub(super) async fn start(answer: impl Fn(&str, Bytes) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (started, watches) = mpsc::channel(16);
        let calls = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::new(Shared { answer: Box::new(answer), calls: calls.clone(), started });
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                let service = service_fn(move |request| serve(shared.clone(), request));
                let connection =
                    http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
                connections.spawn(connection);
            }
        });
        Self { url, calls, watches, task }
    }

    pub(super) fn options(&self) -> EtcdOptions {
        EtcdOptions::new([&self.url])
    }

    /// Returns how often a method was called.
    pub(super) fn count(&self, method: &str) -> usize {
        self.calls.lock().iter().filter(|call| *call == method).count()
    }
}

struct Shared {
    answer: Box<Answerer>,
    calls: Arc<Mutex<Vec<String>>>,
    started: mpsc::Sender<FakeWatch>,
}

struct Pieces(mpsc::Receiver<io::Result<Frame<Bytes>>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context)
    }
}

async fn serve(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Pieces>> {
    let method = request.uri().path().to_owned();
    shared.calls.lock().push(method.clone());
    let (sender, receiver) = mpsc::channel(16);
    let response = Response::builder().header("content-type", "application/grpc").body(Pieces(receiver)).unwrap();
    if method == WATCH {
        tokio::spawn(watch(shared, request, sender));
        return Ok(response);
    }
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let reply = (shared.answer)(&method, message(&body)).or_else(|| (method == STATUS).then(healthy));
    let (data, code, text) = match reply {
        Some(Reply::Message(data)) => (data, 0, ""),
        Some(Reply::Status(code, text)) => (Bytes::new(), code, text),
        Some(Reply::Reset) | None => return Err(io::Error::other("reset by the test")),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    trailers.insert("grpc-message", HeaderValue::from_static(text));
    sender.try_send(Ok(Frame::data(data))).unwrap();
    sender.try_send(Ok(Frame::trailers(trailers))).unwrap();
    Ok(response)
}

async fn watch(shared: Arc<Shared>, request: Request<Incoming>, answers: mpsc::Sender<io::Result<Frame<Bytes>>>) {
    let (parts, mut body) = request.into_parts();
    let (forward, requests) = mpsc::channel(16);
    let mut create = Some((parts.headers, requests, answers));
    let mut frames = Frames::default();
    while let Some(Ok(frame)) = body.frame().await {
        frames.push(&frame.into_data().unwrap_or_default());
        while let Ok(Some(bytes)) = frames.next() {
            let request = WatchRequest::decode(bytes).unwrap();
            match (request.command, create.take()) {
                (Some(WatchCommand::Create(request)), Some((headers, requests, answers))) => {
                    let watch = FakeWatch { create: request, headers, requests, answers };
                    let _ = shared.started.send(watch).await;
                }
                (command, _) => {
                    let _ = forward.send(WatchRequest { command }).await;
                }
            }
        }
    }
}

/// Returns the first message of a body.
fn message(body: &[u8]) -> Bytes {
    let mut frames = Frames::default();
    frames.push(body);
    frames.next().unwrap().unwrap()
}

pub(super) fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { cluster_id: CLUSTER, revision })
}

/// The status of a member without problems.
pub(super) fn healthy() -> Reply {
    Reply::of(&StatusResponse { header: header(1), version: "3.6.0".to_owned(), ..StatusResponse::default() })
}

/// The response to a read at a revision, with the keys that it finds.
pub(super) fn found(revision: i64, kvs: Vec<KeyValue>) -> Reply {
    let count = i64::try_from(kvs.len()).unwrap();
    Reply::of(&RangeResponse { header: header(revision), kvs, more: false, count })
}

/// Returns the response to a read of a key in etcd that may exist, and of others, which do not.
pub(super) fn read(method: &str, body: &Bytes, revision: i64, kv: Option<KeyValue>) -> Option<Reply> {
    if method != RANGE {
        return None;
    }
    let request = RangeRequest::decode(body.clone()).unwrap();
    Some(found(revision, kv.into_iter().filter(|kv| kv.key == request.key).collect()))
}
