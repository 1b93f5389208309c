//! A client whose requests fail as a test wants them to.
//!
//! ```ignore
//! let faults = Faults::around(cluster.client());
//! faults.inject(Seen::is_watch, 2, Fault::status(503).retry_after(3));
//! run_something_with(faults.client());
//! faults.drop_watches(); // every watch that is open now breaks
//! assert_eq!(faults.count(Seen::is_watch), 3);
//! ```
//!
//! If several faults match a request, the first one injected that has not been used up applies.
// Each area of the runtime uses some of this.
#![allow(dead_code)]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::sync::watch;
use tower::BoxError;

/// The body of a response that may break.
type Fragile = UnsyncBoxBody<Bytes, BoxError>;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
}

/// Fault that is injected into a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Responds with a `Status` of this code, and optionally a `Retry-After`.
    Status { code: u16, reason: String, retry_after: Option<u64> },
    /// Responds with this body and 200, without sending the request.
    Answer(String),
    /// No connection.
    Refuse,
    /// Never responds, without sending the request.
    Hang,
    /// Sends the request, and never responds.
    Swallow,
    /// Sends the request after a delay.
    Delay(Duration),
    /// Breaks the connection after this many bytes of the response body.
    Cut(usize),
    /// Ends the response body after this many bytes, as if it were complete.
    End(usize),
}

impl Fault {
    /// Returns an error with the reason that Kubernetes uses for this code.
    pub(crate) fn status(code: u16) -> Self {
        let reason = match code {
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        Self::Status { code, reason: reason.into(), retry_after: None }
    }

    /// Adds a `Retry-After` header, if it is a status.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        if let Self::Status { retry_after, .. } = &mut self {
            *retry_after = Some(seconds);
        }
        self
    }
}

impl Seen {
    fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self { method: request.method().clone(), path: request.uri().path().into(), query: query.collect() }
    }

    /// Returns a parameter of the query; empty if it is missing.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// Returns whether it is a watch.
    pub(crate) fn is_watch(&self) -> bool {
        matches!(self.parameter("watch"), "true" | "1")
    }

    /// Returns whether it reads a collection of the resource, such as `configmaps`.
    pub(crate) fn is_list(&self, plural: &str) -> bool {
        self.method == Method::GET && !self.is_watch() && self.path.ends_with(&format!("/{plural}"))
    }

    /// Returns whether it creates, changes or deletes something.
    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET
    }
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, hex) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                at += 3;
            }
            (b'+', _) => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).expect("a query must be text")
}

struct Injected {
    which: Box<dyn Fn(&Seen) -> bool + Send + Sync>,
    left: usize,
    fault: Fault,
}

#[derive(Default)]
struct State {
    faults: Vec<Injected>,
    seen: Vec<Seen>,
    swallowed: usize,
}

/// A client with faults. A cheap handle.
#[derive(Clone)]
pub(crate) struct Faults {
    client: Client,
    state: Arc<Mutex<State>>,
    dropped: Arc<watch::Sender<u64>>,
}

impl Faults {
    /// Wraps a client, without faults so far.
    pub(crate) fn around(inner: Client) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let dropped = Arc::new(watch::Sender::new(0));
        let service = tower::service_fn({
            let (state, dropped) = (state.clone(), dropped.clone());
            move |request| answer(inner.clone(), state.clone(), dropped.subscribe(), request)
        });
        Self { client: Client::new(service, "default"), state, dropped }
    }

    /// Returns the client to test with.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Applies a fault to the next `times` requests that match.
    pub(crate) fn inject(&self, which: impl Fn(&Seen) -> bool + Send + Sync + 'static, times: usize, fault: Fault) {
        self.state.lock().faults.push(Injected { which: Box::new(which), left: times, fault });
    }

    /// Removes all faults that have not been used up.
    pub(crate) fn clear(&self) {
        self.state.lock().faults.clear();
    }

    /// Breaks every open watch.
    pub(crate) fn drop_watches(&self) {
        self.dropped.send_modify(|generation| *generation += 1);
    }

    /// Returns all requests so far, including those with faults.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().seen.clone()
    }

    /// Returns the number of requests that were sent and got no response.
    pub(crate) fn swallowed(&self) -> usize {
        self.state.lock().swallowed
    }

    /// Returns the number of requests so far that match.
    pub(crate) fn count(&self, which: impl Fn(&Seen) -> bool) -> usize {
        self.state.lock().seen.iter().filter(|seen| which(seen)).count()
    }
}

impl State {
    fn fault_of(&mut self, seen: &Seen) -> Option<Fault> {
        let injected = self.faults.iter_mut().find(|injected| injected.left > 0 && (injected.which)(seen))?;
        injected.left -= 1;
        Some(injected.fault.clone())
    }
}

async fn answer(
    inner: Client,
    state: Arc<Mutex<State>>,
    dropped: watch::Receiver<u64>,
    request: Request<Body>,
) -> Result<Response<Fragile>, BoxError> {
    let seen = Seen::of(&request);
    let fault = {
        let mut state = state.lock();
        state.seen.push(seen.clone());
        state.fault_of(&seen)
    };
    let (mut bytes_left, mut breaks) = (usize::MAX, false);
    match fault {
        Some(Fault::Status { code, reason, retry_after }) => return Ok(rejection(code, &reason, retry_after)),
        Some(Fault::Answer(body)) => return Ok(Response::new(whole(body))),
        Some(Fault::Refuse) => return Err("connection refused".into()),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Swallow) => {
            inner.send(request).await?;
            state.lock().swallowed += 1;
            return std::future::pending().await;
        }
        Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
        Some(Fault::Cut(bytes)) => (bytes_left, breaks) = (bytes, true),
        Some(Fault::End(bytes)) => bytes_left = bytes,
        None => {}
    }
    let response = inner.send(request).await?;
    let droppable = seen.is_watch().then_some(dropped);
    Ok(response.map(|body| limited(body, bytes_left, breaks, droppable)))
}

fn whole(body: String) -> Fragile {
    Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync()
}

fn rejection(code: u16, reason: &str, retry_after: Option<u64>) -> Response<Fragile> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("injected {reason}"), "reason": reason, "code": code,
    });
    let mut response = Response::new(whole(status.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).expect("the code must be 1");
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Returns a body that ends after some bytes, or, if it can be dropped, on request.
fn limited(body: Body, left: usize, breaks: bool, dropped: Option<watch::Receiver<u64>>) -> Fragile {
    let frames = futures_util::stream::unfold(Some((body, left, dropped)), move |state| async move {
        let (mut body, left, mut dropped) = state?;
        if left == 0 {
            return breaks.then(|| (Err(BoxError::from("connection reset")), None));
        }
        let told = async {
            match &mut dropped {
                Some(dropped) => dropped.changed().await,
                None => std::future::pending().await,
            }
        };
        let frame = tokio::select! {
            frame = body.frame() => frame?,
            _ = told => return Some((Err("connection reset".into()), None)),
        };
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(mut data)) => {
                data.truncate(left);
                let left = if left == usize::MAX { left } else { left - data.len() };
                Some((Ok(http_body::Frame::data(data)), Some((body, left, dropped))))
            }
            Ok(Err(_trailers)) => None,
            Err(error) => Some((Err(BoxError::from(error)), None)),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

#[tokio::test]
async fn faults_apply_in_order_and_are_used_up() {
    use crate::cluster::TestCluster;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;

    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    let namespaces: Api<Namespace> = Api::all(faults.client());
    faults.inject(|seen| seen.method == Method::GET, 1, Fault::status(503));
    faults.inject(|seen| seen.method == Method::GET, 1, Fault::Cut(5));
    faults.inject(Seen::is_watch, 1, Fault::Hang);
    let rejected = namespaces.get(cluster.namespace()).await.unwrap_err();
    assert!(matches!(rejected, kube::Error::Api(status) if status.code == 503));
    assert!(namespaces.get(cluster.namespace()).await.is_err());
    assert!(namespaces.get(cluster.namespace()).await.is_ok());
    assert_eq!(faults.count(|seen| seen.path.ends_with(cluster.namespace())), 3);
}
