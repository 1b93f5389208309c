//! A webhook server on a free port, with answers from the test.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

/// Answers a review at a path with a status and a body.
pub(crate) type Answering = dyn Fn(&str, &Value) -> (u16, Value) + Send + Sync;

/// A server that stops at the end of the test.
pub(crate) struct WebhookServer {
    pub(crate) address: SocketAddr,
    /// The CA bundle for webhook configurations.
    pub(crate) ca_bundle: String,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    connections: Arc<Mutex<usize>>,
    _serving: JoinSet<()>,
}

impl WebhookServer {
    /// Starts a server with a certificate for 127.0.0.1 and some names.
    pub(crate) async fn start(
        names: &[&str],
        answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        let (ca_bundle, tls) = certificates(names);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, tls, Arc::new(answer), seen.clone(), connections.clone()));
        Self { address, ca_bundle, seen, connections, _serving: serving }
    }

    /// Returns the `clientConfig` of a path.
    pub(crate) fn at(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": self.ca_bundle})
    }

    /// Returns the called paths with the requests, since the last call of this function.
    pub(crate) fn take_seen(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.seen.lock())
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock()
    }
}

/// Returns the CA bundle, and the TLS configuration of a server with a certificate from it.
fn certificates(names: &[&str]) -> (String, TlsAcceptor) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.push("127.0.0.1".to_owned());
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (STANDARD.encode(authority_certificate.pem()), TlsAcceptor::from(Arc::new(config)))
}

async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    answer: Arc<Answering>,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    connections: Arc<Mutex<usize>>,
) {
    let mut open = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        *connections.lock() += 1;
        let (tls, answer, seen) = (tls.clone(), answer.clone(), seen.clone());
        open.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let (answer, seen) = (answer.clone(), seen.clone());
                async move { Ok::<_, Infallible>(respond(&*answer, &seen, request).await) }
            });
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(
    answer: &Answering,
    seen: &Mutex<Vec<(String, Value)>>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path_and_query().unwrap().to_string();
    // A GET has no body.
    let review = serde_json::from_slice(&request.collect().await.unwrap().to_bytes()).unwrap_or(Value::Null);
    let (code, body) = answer(path.split('?').next().unwrap_or_default(), &review);
    seen.lock().push((path, review));
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Full::new(body.to_string().into())).unwrap()
}

/// Returns an AdmissionReview with a response.
pub(crate) fn admission(review: &Value, mut response: Value) -> (u16, Value) {
    response["uid"] = review["request"]["uid"].clone();
    (200, json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}))
}

/// Returns the response of a webhook that patches the object.
pub(crate) fn patched(review: &Value, patch: &Value) -> (u16, Value) {
    let patch = STANDARD.encode(patch.to_string());
    admission(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// Returns the response of a webhook that denies the request.
pub(crate) fn denied(review: &Value, message: &str) -> (u16, Value) {
    admission(review, json!({"allowed": false, "status": {"message": message, "code": 403}}))
}
