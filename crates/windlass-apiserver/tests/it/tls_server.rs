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
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use windlass_apiserver::{Limits, Server, authentication::AuthenticationOptions};
use windlass_store::memory::MemoryStore;

/// Far more than anything here takes on any machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

type Frames = futures_util::stream::BoxStream<'static, Result<http_body::Frame<Bytes>, std::io::Error>>;
/// The body of a request: bytes, or frames that the test sends.
pub(crate) type RequestBody = Either<Full<Bytes>, StreamBody<Frames>>;

/// A client certificate, and its issuer unless that is the server's authority.
pub(crate) type ClientCertificate<'a> = (&'a CertificateParams, Option<&'a Issuer<'static, KeyPair>>);

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
        Self::start_with(limits, AuthenticationOptions::default()).await
    }

    /// Starts a server with these options, whose authority for client certificates is the one of the tests.
    pub(crate) async fn start_with(limits: Limits, options: AuthenticationOptions) -> Self {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        let root = authority.self_signed(&key).unwrap();
        roots.add(root.der().clone()).unwrap();
        let options = AuthenticationOptions { client_ca: Some(root.pem()), ..options };
        let verifier = options.certificate_verifier().unwrap();
        let builder = Server::builder(Arc::new(MemoryStore::new())).limits(limits).authentication(options);
        let server = builder.build().await.unwrap();
        let issuer = Issuer::new(authority, key);
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
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
        self.connect_with(Some((&params, None))).await
    }

    /// Opens a connection with a certificate, if any, of the server's authority or of another issuer.
    async fn connect_with(&self, certificate: Option<ClientCertificate<'_>>) -> TlsStream<TcpStream> {
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone());
        let mut tls = match certificate {
            None => builder.with_no_client_auth(),
            Some((params, issuer)) => {
                let key = KeyPair::generate().unwrap();
                let certificate = params.clone().signed_by(&key, issuer.unwrap_or(&self.issuer)).unwrap();
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
                // Sent even if the server asks for certificates of other authorities.
                let certified = rustls::sign::CertifiedKey::new(vec![certificate.der().clone()], key);
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)))
            }
        };
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap()
    }

    /// Opens an HTTP/2 connection with a certificate for a user.
    pub(crate) async fn http2(&self, user: &str, groups: &[&str]) -> Connected {
        Self::http2_over(self.connect(user, groups).await).await
    }

    /// Opens an HTTP/2 connection with a certificate, if any.
    pub(crate) async fn http2_with(&self, certificate: Option<ClientCertificate<'_>>) -> Connected {
        Self::http2_over(self.connect_with(certificate).await).await
    }

    async fn http2_over(stream: TlsStream<TcpStream>) -> Connected {
        let stream = TokioIo::new(stream);
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
        tokio::time::timeout(TIMEOUT, response).await.expect("a response in time")
    }

    /// Sends a POST and returns the response without its body.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> Response<Incoming> {
        let mut request = Request::post(format!("https://127.0.0.1{path}")).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Either::Left(Full::new(Bytes::from_static(body.as_bytes())));
        self.send(request.body(body).unwrap()).await.unwrap()
    }

    /// Sends a GET and returns the response without its body.
    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        let body = Either::Left(Full::new(Bytes::new()));
        self.send(Request::get(format!("https://127.0.0.1{path}")).body(body).unwrap()).await
    }
}
