//! A caller of webhooks: a TLS client that trusts one bundle.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A CA for a test.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn pem(&self) -> String {
        self.pem.clone()
    }

    /// Returns a certificate and its key.
    pub(crate) fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

#[derive(Clone)]
pub(crate) struct Caller {
    address: SocketAddr,
    config: ClientConfig,
}

pub(crate) enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Caller {
    pub(crate) fn new(address: SocketAddr, bundle: &str) -> Self {
        Self::with_identity(address, bundle, None)
    }

    /// Returns a caller with a client certificate.
    pub(crate) fn with_identity(address: SocketAddr, bundle: &str, identity: Option<(String, String)>) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { address, config }
    }

    pub(crate) fn http1(self) -> Self {
        self.offering(&["http/1.1"])
    }

    /// Offers these protocols; HTTP/1.1 if there are none.
    pub(crate) fn offering(mut self, protocols: &[&str]) -> Self {
        self.config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self
    }

    /// Returns a connection, and the certificate of the server.
    pub(crate) async fn connect(&self) -> anyhow::Result<(Connection, CertificateDer<'static>)> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(Arc::new(self.config.clone())).connect(name, stream).await?;
        let session = stream.get_ref().1;
        let certificate = session.peer_certificates().unwrap()[0].clone().into_owned();
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let stream = TokioIo::new(stream);
        if is_http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
            tokio::spawn(connection);
            Ok((Connection::Http2(sender), certificate))
        } else {
            let (sender, connection) = http1::handshake(stream).await?;
            tokio::spawn(connection);
            Ok((Connection::Http1(sender), certificate))
        }
    }

    /// Sends a review on a new connection.
    pub(crate) async fn post(&self, path: &str, review: &Value) -> (StatusCode, Value) {
        let (mut connection, _) = self.connect().await.unwrap();
        connection.post(path, review).await.unwrap()
    }
}

impl Connection {
    pub(crate) async fn post(&mut self, path: &str, review: &Value) -> anyhow::Result<(StatusCode, Value)> {
        self.send(Method::POST, path, Some("application/json"), review.to_string()).await
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let mut request = Request::builder().method(method).uri(format!("https://127.0.0.1{path}"));
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request.body(Full::new(body.into()))?;
        let response: http::Response<Incoming> = match self {
            Self::Http1(sender) => sender.send_request(request).await?,
            Self::Http2(sender) => sender.send_request(request).await?,
        };
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&body)?))
    }
}
