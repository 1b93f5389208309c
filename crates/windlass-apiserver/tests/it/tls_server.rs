//! A server over TLS on a free port, and HTTP/2 connections to it with client certificates.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{PrivateKeyDer, ServerName},
    server::WebPkiClientVerifier,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use windlass_apiserver::{Limits, Server};
use windlass_store::memory::MemoryStore;

/// Far more than anything here takes on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

type Frames = futures_util::stream::BoxStream<'static, Result<http_body::Frame<Bytes>, std::io::Error>>;
/// The body of a request: bytes, or frames that the test sends.
pub(crate) type RequestBody = Either<Full<Bytes>, StreamBody<Frames>>;

/// A serving server; stops at the end of the test.
pub(crate) struct TlsServer {
    address: SocketAddr,
    issuer: Issuer<'static, KeyPair>,
    roots: RootCertStore,
    _serving: JoinSet<()>,
}

/// An HTTP/2 connection.
pub(crate) struct Connected {
    pub(crate) requests: SendRequest<RequestBody>,
    /// The task of the connection, which ends when the server closes it.
    pub(crate) ended: JoinSet<()>,
}

impl TlsServer {
    pub(crate) async fn start(limits: Limits) -> Self {
        let server = Server::builder(Arc::new(MemoryStore::new())).limits(limits).build().await.unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.self_signed(&key).unwrap().der().clone()).unwrap();
        let issuer = Issuer::new(authority, key);
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap())
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move { server.serve(listener, Arc::new(tls), std::future::pending()).await.unwrap() });
        Self { address, issuer, roots, _serving: serving }
    }

    /// Opens a connection with a certificate for a user, without sending anything over it.
    pub(crate) async fn connect(&self, user: &str, groups: &[&str]) -> TlsStream<TcpStream> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let mut tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_client_auth_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap()
    }

    /// Opens an HTTP/2 connection with a certificate for a user.
    pub(crate) async fn http2(&self, user: &str, groups: &[&str]) -> Connected {
        let stream = TokioIo::new(self.connect(user, groups).await);
        let (requests, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        let mut ended = JoinSet::new();
        ended.spawn(async move {
            // The server may close it.
            let _ = connection.await;
        });
        Connected { requests, ended }
    }

    /// Opens an HTTP/2 connection as the administrator.
    pub(crate) async fn admin(&self) -> Connected {
        self.http2("admin", &["system:masters"]).await
    }
}

impl Connected {
    /// Sends a request and returns the response without its body.
    pub(crate) async fn send(&mut self, request: Request<RequestBody>) -> hyper::Result<Response<Incoming>> {
        self.requests.ready().await?;
        let response = self.requests.send_request(request);
        tokio::time::timeout(PATIENCE, response).await.expect("a response in time")
    }

    /// Sends a GET and returns the response without its body.
    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        let body = Either::Left(Full::new(Bytes::new()));
        self.send(Request::get(format!("https://127.0.0.1{path}")).body(body).unwrap()).await
    }
}
