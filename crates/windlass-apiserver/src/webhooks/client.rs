//! Calls a webhook: one POST over TLS, on a pooled connection, with errors worded as in client-go.

mod dial;
mod own;
mod remote;
mod trust;
mod words;

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Weak, mpsc},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{client::legacy, rt::TokioExecutor};
use parking_lot::Mutex;
use serde_json::Value;
use windlass_schema::{go_url, json, yaml};

use self::{dial::Dial, own::OwnServer};
pub(crate) use self::{
    dial::Service,
    remote::{Fetch, HttpVersions, Identity, Remote, Tls, authorities, service_connections, unverified},
    words::of as error_text,
};
use super::resolver::ServiceResolver;
use crate::{
    kubeconfig::{Credentials, RemoteServer},
    server::Inner,
};

/// The largest accepted response.
const ANSWER_LIMIT: usize = 64 << 20;

pub(crate) type Connections = legacy::Client<HttpsConnector<Dial>, Full<Bytes>>;

/// Opens connections to webhooks; webhooks that trust the same certificates share connections.
pub(crate) struct Client {
    resolver: Arc<dyn ServiceResolver>,
    own: OwnServer,
    known: Mutex<HashMap<Peer, Weak<Connections>>>,
}

/// The key of connections that may be shared.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Peer {
    ca_bundle: String,
    service: Option<Service>,
}

/// A complete response.
type Reply = (StatusCode, HeaderMap, Bytes);

/// The address of a webhook.
pub(crate) struct Target {
    route: Route,
    /// The URL, as errors show it.
    url: String,
    /// The name of the client.
    agent: &'static str,
    credentials: Credentials,
}

/// Route to a webhook.
enum Route {
    /// Over the network.
    Network(Arc<Connections>),
    /// Through this server itself.
    Own(OwnServer),
}

/// Reasons why a call has no response, worded as in kube-apiserver.
#[derive(Debug)]
pub(crate) struct CallError {
    pub(crate) message: String,
    /// Whether another attempt may succeed.
    pub(crate) transient: bool,
}

impl From<String> for CallError {
    fn from(message: String) -> Self {
        Self { message, transient: false }
    }
}

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The time limit.
    pub(crate) timeout: Duration,
    /// Whether the time limit is sent to the webhook.
    pub(crate) announced: bool,
}

impl Client {
    pub(crate) fn new(resolver: Arc<dyn ServiceResolver>) -> Self {
        Self { resolver, own: OwnServer::default(), known: Mutex::default() }
    }

    /// Sets the server that sends the requests.
    pub(super) fn set_own(&self, server: &Weak<Inner>) {
        self.own.set(server);
    }

    /// Returns the target of a `clientConfig`.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid; reported when the webhook is called.
    pub(crate) fn target(&self, config: &Value) -> Result<Target, String> {
        let ca_bundle = config["caBundle"].as_str().unwrap_or_default().to_owned();
        let service = Service::of(&config["service"]);
        let url = match (&service, config["url"].as_str()) {
            (Some(service), _) => service.url(config["service"]["path"].as_str().unwrap_or_default()),
            (None, Some(url)) => {
                let parsed = go_url::parse(url).map_err(|error| error.to_string())?;
                format!("{}://{}{}", parsed.scheme, parsed.host, clean(&parsed.escaped_path))
            }
            (None, None) => return Err("webhook configuration must have either service or URL".to_owned()),
        };
        let route = match service.as_ref().is_some_and(OwnServer::is_behind) {
            true => Route::Own(self.own.clone()),
            false => Route::Network(self.connections(Peer { ca_bundle, service })?),
        };
        Ok(Target { route, url, agent: "kube-apiserver-admission", credentials: Credentials::None })
    }

    fn connections(&self, peer: Peer) -> Result<Arc<Connections>, String> {
        let mut known = self.known.lock();
        if let Some(connections) = known.get(&peer).and_then(Weak::upgrade) {
            return Ok(connections);
        }
        let tls = trust::config(&peer.ca_bundle)?;
        let dial = Dial { service: peer.service.clone(), resolver: self.resolver.clone() };
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_all_versions().wrap_connector(dial);
        let connections = Arc::new(legacy::Client::builder(TokioExecutor::new()).build(connector));
        known.retain(|_, connections| connections.strong_count() > 0);
        known.insert(peer, Arc::downgrade(&connections));
        Ok(connections)
    }
}

/// Returns a path without empty segments.
fn clean(path: &str) -> String {
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    format!("/{}", steps.join("/"))
}

impl Target {
    /// Returns the target that the current context of a kubeconfig file names. `agent` is the client's name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be used.
    pub(crate) fn from_kubeconfig(path: &Path, agent: &'static str) -> Result<Self, String> {
        let RemoteServer { url, tls, credentials } = RemoteServer::load(path).map_err(|error| error.reason())?;
        let route = Route::Network(Arc::new(remote::connections(&tls)?));
        Ok(Self { route, url, agent, credentials })
    }

    /// Posts a review and returns the response, of any kind.
    ///
    /// # Errors
    /// Returns an error if there is no response, worded as in kube-apiserver.
    pub(crate) async fn post(&self, review: &Value, limits: Limits) -> Result<Value, String> {
        self.send(review, limits).await.map_err(|error| error.message)
    }

    /// Posts a review and returns the response, of any kind.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    pub(crate) async fn send(&self, review: &Value, limits: Limits) -> Result<Value, CallError> {
        let url = match limits.announced {
            true => format!("{}?timeout={}s", self.url, limits.timeout.as_secs()),
            false => self.url.clone(),
        };
        let failed = |why: String| format!("Post \"{url}\": {why}");
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| failed(error.to_string()))?;
        let call = async {
            let mut request = Request::builder()
                .method(Method::POST)
                .uri(uri)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, */*")
                .header(header::USER_AGENT, self.agent);
            if let Some(credentials) = self.credentials.header().await.map_err(failed)? {
                request = request.header(header::AUTHORIZATION, credentials);
            }
            let request = request
                .body(Full::new(Bytes::from(json::encode_object(review))))
                .map_err(|error| failed(error.to_string()))?;
            let (status, headers, body) = match &self.route {
                Route::Network(connections) => exchange(connections, request, failed).await?,
                Route::Own(server) => server.send(request).await.map_err(failed)?,
            };
            let code = status.as_u16();
            let transient = matches!(code, 429 | 500 | 504) || headers.contains_key(header::RETRY_AFTER);
            answer(code, &headers, &body).map_err(|message| CallError { message, transient })
        };
        let _hold = hold_time(limits.timeout);
        match tokio::time::timeout(limits.timeout, call).await {
            Ok(answer) => answer,
            Err(_) => Err(failed("context deadline exceeded".to_owned()).into()),
        }
    }
}

/// Sends a request over the network and returns the complete response.
async fn exchange(
    connections: &Connections,
    request: Request<Full<Bytes>>,
    failed: impl Fn(String) -> String,
) -> Result<Reply, CallError> {
    let response = connections.request(request).await.map_err(|error| {
        let why = words::of(&error);
        CallError { transient: why.contains("connection reset"), message: failed(why) }
    })?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_LIMIT).collect().await;
    let body = body.map_err(|error| {
        format!("unexpected error when reading response body. Please retry. Original error: {error}")
    })?;
    Ok((parts.status, parts.headers, body.to_bytes()))
}

/// Keeps virtual time from advancing while a response is pending, for at most `limit` of real time. Tokio's paused clock
/// does not advance while a blocking task runs.
pub(crate) fn hold_time(limit: Duration) -> Option<mpsc::Sender<()>> {
    windlass_clock::is_virtual().then(|| {
        let (hold, held) = mpsc::channel();
        tokio::task::spawn_blocking(move || held.recv_timeout(limit));
        hold
    })
}

/// Parses a response: YAML, of which JSON is a subset.
pub(crate) fn answer(code: u16, headers: &HeaderMap, body: &[u8]) -> Result<Value, String> {
    if !(200..=206).contains(&code) {
        return Err(words::of_status(code, headers, body));
    }
    if body.is_empty() {
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        return Err(format!("0-length response with status code: {code} and content type: {content_type}"));
    }
    let unread = |error: String| format!("couldn't get version/kind; json parse error: {error}");
    let document = match json::parse(body) {
        Ok(document) => document,
        Err(_) => yaml::parse(body).map_err(|error| format!("error converting YAML to JSON: {error}"))?,
    };
    let given = windlass_schema::decode::type_meta(&document.value).map_err(unread)?;
    if given.kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body)));
    }
    Ok(document.value)
}
