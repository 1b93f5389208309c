//! An HTTP/2 connection to a member of the cluster, and calls on it.

use std::{
    convert::Infallible,
    error::Error as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
};

use crate::{
    EtcdError,
    frames::{self, Frames},
    options::Endpoint,
    status::{CallError, Status},
    tls::{self, TlsFiles},
};

/// Interval of keepalive pings, even between calls, and the time limit for a response.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Maximum time for a server to reject a client certificate.
const REJECTION: Duration = Duration::from_millis(500);
/// Number of bytes that etcd may send ahead, per call and together.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The body of a request: one message, or messages as they are sent.
pub(crate) enum RequestBody {
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(pieces) => pieces.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }
}

/// A connection, which is closed when it is dropped.
pub(crate) struct Connection {
    sender: http2::SendRequest<RequestBody>,
    driver: JoinHandle<()>,
    endpoint: Endpoint,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to a server.
    pub(crate) async fn open(endpoint: &Endpoint, files: &TlsFiles) -> Result<Self, EtcdError> {
        let unreachable =
            |error: &dyn ToString| EtcdError::Unreachable { cause: format!("{endpoint}: {}", error.to_string()) };
        let stream =
            TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(|error| unreachable(&error))?;
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let stream: Box<dyn Stream> = if endpoint.tls {
            let (connector, name) = (files.connector().await?, tls::server_name(&endpoint.host)?);
            Box::new(connector.connect(name, stream).await.map_err(|error| {
                // Anything else may be a server that is just starting or stopping.
                match error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                    true => EtcdError::Tls { cause: format!("{endpoint}: {error}") },
                    false => unreachable(&error),
                }
            })?)
        } else {
            Box::new(stream)
        };
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| unreachable(&described(&error)))?;
        let task = async move {
            // Calls get the error.
            let _ = connection.await;
        };
        let driver = tokio::spawn(task.boxed());
        Ok(Self { sender, driver, endpoint: endpoint.clone() })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns why a server rejects the client certificate, if it does. With TLS 1.3 it says so after the handshake,
    /// and a client that writes meanwhile may see only that the connection is closed.
    pub(crate) async fn rejection(endpoint: &Endpoint, files: &TlsFiles) -> Option<String> {
        if !endpoint.tls {
            return None;
        }
        let (connector, name) = (files.connector().await.ok()?, tls::server_name(&endpoint.host).ok()?);
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.ok()?;
        let mut stream = connector.connect(name, stream).await.ok()?;
        let error = tokio::time::timeout(REJECTION, stream.read_u8()).await.ok()?.err()?;
        error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()).then(|| error.to_string())
    }

    /// Returns whether calls will fail.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and waits for the response. `within` is the time limit that is sent to etcd.
    pub(crate) async fn call<A: Message + Default>(
        &self,
        method: &'static str,
        message: Bytes,
        within: Duration,
    ) -> Result<A, CallError> {
        let timeout = format!("{}m", within.as_millis().min(99_999_999));
        let mut answer = self.send(method, RequestBody::Whole(Some(message)), &[("grpc-timeout", &timeout)]).await?;
        let mut frames = Frames::default();
        while let Some(frame) = answer.frame().await {
            let frame = frame.map_err(|error| self.lost(&error))?;
            match frame.into_data() {
                Ok(bytes) => frames.push(&bytes),
                Err(frame) => return self.finished(frame.trailers_ref().and_then(Status::of), frames),
            }
        }
        self.finished(None, frames)
    }

    fn finished<A: Message + Default>(&self, status: Option<Status>, mut frames: Frames) -> Result<A, CallError> {
        match status {
            Some(Status { code: 0, .. }) => {}
            Some(status) => return Err(CallError::Status(status)),
            None => return Err(self.broken("the answer has no status")),
        }
        let message = frames.next().map_err(|error| self.broken(&error))?;
        let message = message.ok_or_else(|| self.broken("the answer is empty"))?;
        A::decode(message).map_err(|error| self.broken(&error))
    }

    /// Starts a call whose requests come from a channel, and returns the responses as they arrive.
    pub(crate) async fn stream(
        self: Arc<Self>,
        method: &'static str,
        requests: mpsc::Receiver<Bytes>,
        metadata: &[(&'static str, &str)],
    ) -> Result<Answers, CallError> {
        let body = self.send(method, RequestBody::Stream(requests), metadata).await?;
        Ok(Answers { body, frames: Frames::default(), connection: self })
    }

    async fn send(
        &self,
        method: &'static str,
        body: RequestBody,
        metadata: &[(&'static str, &str)],
    ) -> Result<Incoming, CallError> {
        let mut request = Request::post(format!("{}{method}", self.endpoint))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .header(header::USER_AGENT, concat!("windlass-etcd/", env!("CARGO_PKG_VERSION")));
        for (name, value) in metadata {
            request = request.header(*name, *value);
        }
        let request = request.body(body).map_err(|error| CallError::NotSent(error.to_string()))?;
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(|error| CallError::NotSent(self.explained(&described(&error))))?;
        let response = sender.try_send_request(request).await.map_err(|mut error| {
            let was_sent = error.take_message().is_none();
            let cause = self.explained(&described(error.error()));
            if was_sent { CallError::Lost(cause) } else { CallError::NotSent(cause) }
        })?;
        self.body_of(response)
    }

    fn body_of(&self, response: Response<Incoming>) -> Result<Incoming, CallError> {
        if let Some(status) = Status::of(response.headers()).filter(|status| status.code != 0) {
            return Err(CallError::Status(status));
        }
        if response.status() != StatusCode::OK {
            return Err(self.broken(&format!("the answer has HTTP status {}", response.status())));
        }
        Ok(response.into_body())
    }

    fn lost(&self, error: &hyper::Error) -> CallError {
        CallError::Lost(self.explained(&described(error)))
    }

    fn broken(&self, problem: &(impl ToString + ?Sized)) -> CallError {
        CallError::Lost(self.explained(&problem.to_string()))
    }

    fn explained(&self, problem: &str) -> String {
        format!("connection to etcd at {}: {problem}", self.endpoint)
    }
}

/// The responses of a call, in order.
pub(crate) struct Answers {
    body: Incoming,
    frames: Frames,
    connection: Arc<Connection>,
}

impl Answers {
    /// Waits for the next answer. Cancel-safe.
    pub(crate) async fn next<A: Message + Default>(&mut self) -> Result<A, CallError> {
        loop {
            if let Some(message) = self.frames.next().map_err(|error| self.connection.broken(&error))? {
                return A::decode(message).map_err(|error| self.connection.broken(&error));
            }
            let Some(frame) = self.body.frame().await else {
                return Err(self.connection.broken("the stream has ended"));
            };
            match frame.map_err(|error| self.connection.lost(&error))?.into_data() {
                Ok(bytes) => self.frames.push(&bytes),
                Err(frame) => {
                    let status = frame.trailers_ref().and_then(Status::of).filter(|status| status.code != 0);
                    return Err(
                        status.map_or_else(|| self.connection.broken("the stream has ended"), CallError::Status)
                    );
                }
            }
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.connection.endpoint()
    }
}

/// Encodes a message for [`Connection::call`].
pub(crate) fn encoded(message: &impl Message) -> Bytes {
    frames::encode(message)
}

/// Returns an error with its causes.
fn described(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
