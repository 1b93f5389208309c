//! A server in this process, which many inputs share.

use std::{cell::RefCell, sync::Arc, thread::LocalKey, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;
use windlass_apiserver::{
    Server,
    body::{Body, BodyError},
    user::User,
};
use windlass_store::{Entry, ListOptions, MemoryStore, Revision, Store};

use crate::{pods::EchoingPods, runtime};

/// The inputs after which a server is replaced, because its store keeps the history of its objects.
const INPUTS: u32 = 1000;
/// Maximum time for a response to continue, in virtual time. A watch lasts longer.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(20);

/// A server with its store.
pub(crate) struct SharedServer {
    pub(crate) server: Server,
    store: Arc<dyn Store>,
    /// The objects before the first input.
    baseline: Vec<Entry>,
    revision: Revision,
    inputs: u32,
    runtime: Arc<Runtime>,
}

/// A response.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether the body has ended; a watch has not.
    pub(crate) ended: bool,
}

/// Runs an input against the server of a thread, and keeps the server for the next input if it is unchanged.
pub(crate) fn with(
    servers: &'static LocalKey<RefCell<Option<SharedServer>>>,
    prepare: impl AsyncFnOnce(&SharedServer),
    input: impl AsyncFnOnce(&SharedServer),
) {
    // Taken, so that a server in which an invariant was violated is not used again.
    let mut shared = servers.take().unwrap_or_else(|| SharedServer::new(prepare));
    shared.inputs += 1;
    let runtime = shared.runtime.clone();
    let restored = runtime.block_on(async {
        input(&shared).await;
        shared.is_restored().await
    });
    if restored && shared.inputs < INPUTS {
        servers.set(Some(shared));
    }
}

/// Returns a request of the administrator that creates an object.
pub(crate) fn post(path: &str, object: &Value) -> Request<Full<Bytes>> {
    request(Method::POST, path, "application/json", object.to_string())
}

/// Returns a request of the administrator.
pub(crate) fn request(method: Method, path: &str, content_type: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type);
    let mut request = request.body(Full::new(body.into())).expect("a request of the target must be valid");
    request.extensions_mut().insert(Arc::new(User::admin()));
    request
}

impl SharedServer {
    fn new(prepare: impl AsyncFnOnce(&Self)) -> Self {
        let runtime = Arc::new(runtime::runtime());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        runtime.clone().block_on(async {
            let builder = Server::builder(store.clone()).pod_connections(Arc::new(EchoingPods));
            let server = builder.build().await.expect("a server must start");
            let mut shared =
                Self { server, store, baseline: Vec::new(), revision: Revision::INITIAL, inputs: 0, runtime };
            prepare(&shared).await;
            // The server's own objects are complete when it has nothing else to do.
            tokio::time::sleep(Duration::from_secs(5)).await;
            shared.baseline = shared.objects().await;
            shared.revision = shared.revision().await;
            shared
        })
    }

    /// Sends a request and reads its response.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let response = match self.server.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let (parts, body) = response.into_parts();
        let (body, ended) = read(body).await;
        Answer { code: parts.status.as_u16(), headers: parts.headers, body, ended }
    }

    /// Returns the newest revision of the store.
    pub(crate) async fn revision(&self) -> Revision {
        self.store.revision().await.expect("a store in memory must not fail")
    }

    /// Returns all stored objects.
    async fn objects(&self) -> Vec<Entry> {
        self.store.list(ListOptions::default()).await.expect("a store in memory must not fail").entries
    }

    /// Returns whether a key is in the store.
    pub(crate) async fn has(&self, key: &str) -> bool {
        self.store.get(key).await.expect("a store in memory must not fail").is_some()
    }

    /// Returns whether nothing was written.
    pub(crate) async fn is_untouched(&self) -> bool {
        self.revision().await == self.revision
    }

    /// Returns the stored objects that were not there before the first input.
    pub(crate) async fn new_objects(&self) -> Vec<Entry> {
        let mut objects = self.objects().await;
        objects.retain(|entry| self.baseline.binary_search_by(|known| known.key.cmp(&entry.key)).is_err());
        objects
    }

    /// Returns whether the store has the same objects as before the first input.
    async fn is_restored(&self) -> bool {
        self.is_untouched().await || self.objects().await.iter().map(same).eq(self.baseline.iter().map(same))
    }
}

fn same(entry: &Entry) -> (&str, &[u8]) {
    (&entry.key, &entry.value)
}

/// Reads a body until it ends, or has nothing to say.
async fn read(mut body: Body) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    loop {
        match tokio::time::timeout(RESPONSE_TIMEOUT, body.frame()).await {
            Ok(Some(Ok(frame))) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            // The client may have asked for a time limit that is shorter than the list takes, or for something that
            // another server has.
            Ok(Some(Err(BodyError::TimedOut | BodyError::BrokenOff))) => return (bytes, false),
            Ok(None) => return (bytes, true),
            Err(_) => return (bytes, false),
        }
    }
}
