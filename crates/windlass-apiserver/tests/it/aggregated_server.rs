//! An API server on a free port that this server forwards requests to: it returns the responses of the test, and
//! records the requests.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Request, Response, StatusCode, Version, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore,
    pki_types::PrivateKeyDer,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::{
        Notify,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

pub(crate) const GROUP: &str = "wardle.example.com";
pub(crate) const PATH: &str = "/apis/wardle.example.com/v1alpha1";

type Frames = futures_util::stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>;
type ResponseBody = Either<Full<Bytes>, StreamBody<Frames>>;

/// A request that arrived.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) version: Version,
    /// The common name of the client's certificate.
    pub(crate) client: Option<String>,
}

/// State that the test and the server share.
pub(crate) struct Shared {
    pub(crate) seen: Mutex<Vec<Seen>>,
    /// Whether every request gets an error.
    pub(crate) broken: Mutex<bool>,
    /// Ends the body of `/broken` after its first half.
    pub(crate) breaks: Notify,
    /// Whether the server has aggregated discovery, and OpenAPI documents of version 3.
    pub(crate) aggregated: bool,
    /// The lines of the next watch.
    lines: Mutex<Option<UnboundedReceiver<String>>>,
    /// Gets a message when the body of a watch is dropped.
    dropped: UnboundedSender<()>,
}

/// A server that stops at the end of the test.
pub(crate) struct AggregatedServer {
    pub(crate) address: SocketAddr,
    /// The CA bundle of the APIService.
    pub(crate) ca_bundle: String,
    pub(crate) shared: Arc<Shared>,
    pub(crate) lines: UnboundedSender<String>,
    pub(crate) dropped: UnboundedReceiver<()>,
    _serving: JoinSet<()>,
}

/// The certificates of a front proxy: the client certificate, its key, and their issuer.
pub(crate) struct FrontProxy {
    pub(crate) certificate: String,
    pub(crate) key: String,
    authority: rcgen::Certificate,
}

impl FrontProxy {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let mut client = CertificateParams::new(Vec::new()).unwrap();
        client.distinguished_name.push(DnType::CommonName, "front-proxy-client");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = client.signed_by(&key, &issuer).unwrap();
        Self { certificate: certificate.pem(), key: key.serialize_pem(), authority }
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap()
    }
}

impl AggregatedServer {
    /// Starts a server for the service `wardle/api` that accepts only the front proxy.
    pub(crate) async fn start(proxy: &FrontProxy, aggregated: bool) -> Self {
        Self::with_protocols(proxy, aggregated, &[b"h2", b"http/1.1"]).await
    }

    /// Starts a server that offers these protocols.
    pub(crate) async fn with_protocols(proxy: &FrontProxy, aggregated: bool, protocols: &[&[u8]]) -> Self {
        let (ca_bundle, tls) = certificates(proxy, protocols);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (lines, receiver) = unbounded_channel();
        let (dropped, dropped_receiver) = unbounded_channel();
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            broken: Mutex::default(),
            breaks: Notify::new(),
            aggregated,
            lines: Mutex::new(Some(receiver)),
            dropped,
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, tls, shared.clone()));
        Self { address, ca_bundle, shared, lines, dropped: dropped_receiver, _serving: serving }
    }

    /// Returns the requests received since the last call, except for the server's own.
    pub(crate) fn take_seen(&self) -> Vec<Seen> {
        let mut seen = std::mem::take(&mut *self.shared.seen.lock());
        seen.retain(|seen| !seen.headers["x-remote-user"].to_str().unwrap().starts_with("system:kube-aggregator"));
        seen
    }
}

fn certificates(proxy: &FrontProxy, protocols: &[&[u8]]) -> (String, TlsAcceptor) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let names = vec!["api.wardle.svc".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(proxy.verifier())
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    (STANDARD.encode(root.pem()), TlsAcceptor::from(Arc::new(config)))
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    let mut open = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, shared) = (tls.clone(), shared.clone());
        open.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let client = chain.first().and_then(|certificate| {
                let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
                Some(parsed.subject().iter_common_name().next()?.as_str().ok()?.to_owned())
            });
            let service = hyper::service::service_fn(move |request| {
                let (shared, client) = (shared.clone(), client.clone());
                async move { Ok::<_, Infallible>(respond(&shared, request, client).await) }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(shared: &Arc<Shared>, request: Request<Incoming>, client: Option<String>) -> Response<ResponseBody> {
    if request.headers().contains_key(header::UPGRADE) {
        return upgrade(shared, request, client);
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let accepts_groups =
        parts.headers.get("accept").is_some_and(|accept| accept.to_str().unwrap().contains("apidiscovery"));
    let body = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap_or(Value::Null);
    let (method, version) = (parts.method.to_string(), parts.version);
    let seen = Seen { method, path: path.clone(), headers: parts.headers, body, version, client };
    shared.seen.lock().push(seen);
    if *shared.broken.lock() {
        return json_answer(500, "application/json", &json!({"kind": "Status", "code": 500}));
    }
    match &*path {
        "/apis" if shared.aggregated && accepts_groups => {
            let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            json_answer(
                200,
                content_type,
                &json!({
                    "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
                    "items": [{"metadata": {"name": GROUP}, "versions": [{"version": "v1alpha1", "freshness": "Current",
                        "resources": [{"resource": "flunders", "scope": "Namespaced", "singularResource": "flunder",
                            "verbs": ["get", "list", "watch"],
                            "responseKind": {"group": GROUP, "version": "v1alpha1", "kind": "Flunder"}}]}]}],
                }),
            )
        }
        PATH => json_answer(
            200,
            "application/json",
            &json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1alpha1"),
                "resources": [{"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
                    "verbs": ["get", "list", "watch"]}],
            }),
        ),
        "/openapi/v3" if shared.aggregated => {
            let address = "/openapi/v3/apis/wardle.example.com/v1alpha1?hash=ABC";
            let paths = json!({"apis/wardle.example.com/v1alpha1": {"serverRelativeURL": address}});
            json_answer(200, "application/json", &json!({"paths": paths}))
        }
        "/openapi/v3/apis/wardle.example.com/v1alpha1?hash=ABC" => {
            json_answer(200, "application/json", &json!({"openapi": "3.0.0", "info": {"title": "wardle"}}))
        }
        "/openapi/v2" => json_answer(
            200,
            "application/json",
            &json!({
                "swagger": "2.0",
                "paths": {PATH: {"get": {}}, "/version/": {"get": {}}},
                "definitions": {"wardle": {"type": "object"}},
            }),
        ),
        path if path.ends_with("/redirect") => Response::builder()
            .status(302)
            .header("location", "https://elsewhere/")
            .body(Either::Left(Full::default()))
            .unwrap(),
        path if path.contains("watch=true") => watch(shared),
        path if path.ends_with("/broken") => {
            let half = stream::iter([Ok(Frame::data(Bytes::from_static(b"{\"kind\": ")))]);
            let shared = shared.clone();
            let rest = stream::once(async move {
                shared.breaks.notified().await;
                Err(std::io::Error::other("the disk failed"))
            });
            Response::new(Either::Right(StreamBody::new(half.chain(rest).boxed())))
        }
        path if path.starts_with(PATH) => {
            json_answer(200, "application/json", &json!({"kind": "Flunder", "metadata": {"name": "a"}}))
        }
        _ => json_answer(404, "application/json", &json!({"kind": "Status", "code": 404})),
    }
}

fn json_answer(code: u16, content_type: &str, body: &Value) -> Response<ResponseBody> {
    let response = Response::builder().status(code).header("content-type", content_type);
    response.body(Either::Left(Full::new(body.to_string().into()))).unwrap()
}

/// Sends a message when it is dropped.
struct OnDrop(UnboundedSender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

fn watch(shared: &Arc<Shared>) -> Response<ResponseBody> {
    let lines = shared.lines.lock().take().expect("one watch at a time");
    let state = (lines, OnDrop(shared.dropped.clone()));
    let frames = stream::unfold(state, |mut state| async move {
        let line = state.0.recv().await?;
        Some((Ok(Frame::data(Bytes::from(line))), state))
    });
    let response = Response::builder().header("content-type", "application/json");
    response.body(Either::Right(StreamBody::new(Box::pin(frames) as Frames))).unwrap()
}

/// Upgrades a connection, and sends back everything that arrives in capitals.
fn upgrade(shared: &Arc<Shared>, mut request: Request<Incoming>, client: Option<String>) -> Response<ResponseBody> {
    let path = request.uri().path().to_owned();
    let method = request.method().to_string();
    let (headers, version) = (request.headers().clone(), request.version());
    let protocol = headers[header::UPGRADE].clone();
    shared.seen.lock().push(Seen { method, path: path.clone(), headers, body: Value::Null, version, client });
    if path.ends_with("/refused") {
        return json_answer(403, "application/json", &json!({"kind": "Status", "code": 403}));
    }
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgraded.await.unwrap());
        let mut buffer = [0; 64];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            let capitals = buffer[..length].to_ascii_uppercase();
            stream.write_all(&capitals).await.unwrap();
            stream.flush().await.unwrap();
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, protocol)
        .body(Either::Left(Full::default()))
        .unwrap()
}
