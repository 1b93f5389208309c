//! Calls of servers that a file names: issuers of tokens, and webhooks of authenticators.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{client::legacy, rt::TokioExecutor};
use rustls::{
    ClientConfig, Error, RootCertStore,
    client::danger::{ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{PemObject as _, SectionKind},
    },
};

use super::{
    super::resolver::ServiceResolver,
    Connections,
    dial::{Dial, Service},
    hold_time,
    trust::Trust,
    words,
};
use crate::handshake::check_signatures;

/// The number of redirections that are followed.
const MAX_REDIRECTIONS: usize = 10;

/// TLS settings for a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tls {
    /// Trusted certificates in PEM; those of the system if empty.
    pub(crate) authorities: Vec<u8>,
    /// Whether any certificate is accepted.
    pub(crate) insecure: bool,
    /// The name in the server's certificate, if it is not that of the URL.
    pub(crate) server_name: Option<String>,
    /// The client certificate.
    pub(crate) identity: Option<Identity>,
}

/// A client certificate with its key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

/// A client with connections of its own.
pub(crate) struct Remote {
    connections: Connections,
}

/// A response of any status.
pub(crate) struct Fetch {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Fetch {
    /// Returns the error for a status that is not a success, worded as in client-go.
    pub(crate) fn failure(&self) -> Option<String> {
        let code = self.status.as_u16();
        (!(200..=206).contains(&code)).then(|| words::of_status(code, &self.headers, &self.body))
    }
}

impl Remote {
    /// Creates a client; connects when it is used.
    ///
    /// # Errors
    /// Returns an error if a certificate cannot be used.
    pub(crate) fn new(tls: &Tls) -> Result<Self, String> {
        Ok(Self { connections: connections(tls)? })
    }

    /// Sends a request and returns the response, which may be of any status.
    ///
    /// # Errors
    /// Returns an error if there is no response within the time and size limits.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        timeout: Duration,
        max_size: usize,
    ) -> Result<Fetch, String> {
        let verb = if request.method() == Method::POST { "Post" } else { "Get" };
        let url = request.uri().to_string();
        let call = async {
            let response = self.connections.request(request).await.map_err(|error| words::of(&error))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, max_size).collect().await;
            let body = body.map_err(|error| format!("failed to read the response: {error}"))?.to_bytes();
            Ok(Fetch { status: parts.status, headers: parts.headers, body })
        };
        let _hold = hold_time(timeout);
        let answer = tokio::time::timeout(timeout, call).await;
        answer
            .unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
            .map_err(|why| format!("{verb} \"{url}\": {why}"))
    }

    /// Gets a document over TLS, and follows redirections.
    ///
    /// # Errors
    /// Returns an error if there is no response within the time limit, which is for each request, and the size limit.
    pub(crate) async fn get(&self, url: &str, timeout: Duration, max_size: usize) -> Result<Fetch, String> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTIONS {
            let failed = |why: &dyn fmt::Display| format!("Get \"{url}\": {why}");
            let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| failed(&error))?;
            if uri.scheme_str() != Some("https") {
                return Err(failed(&"the scheme must be https"));
            }
            let request = Request::get(uri)
                .header(header::ACCEPT, "application/json, */*")
                .header(header::USER_AGENT, "kube-apiserver")
                .body(Full::default())
                .map_err(|error| failed(&error))?;
            let answer = self.send(request, timeout, max_size).await?;
            let location = answer.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
            match location.filter(|_| matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308)) {
                Some(path) if path.starts_with('/') => {
                    let (origin, _) = url.split_at(8 + url[8..].find('/').unwrap_or(url.len() - 8));
                    url = format!("{origin}{path}");
                }
                Some(location) => url = location.to_owned(),
                None => return Ok(answer),
            }
        }
        Err(format!("Get \"{url}\": stopped after {MAX_REDIRECTIONS} redirects"))
    }
}

/// The versions of HTTP on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpVersions {
    /// HTTP/2 if the server has it, otherwise HTTP/1.1.
    All,
    /// HTTP/1.1, whose connections can be upgraded.
    Upgradable,
}

/// Returns connections to a service, which are opened when they are used.
///
/// # Errors
/// Returns an error if a certificate cannot be used.
pub(crate) fn service_connections(
    service: Service,
    resolver: Arc<dyn ServiceResolver>,
    tls: &Tls,
    versions: HttpVersions,
) -> Result<Connections, String> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(config(tls)?).https_only();
    let dial = Dial { service: Some(service), resolver };
    let connector = match versions {
        HttpVersions::All => builder.enable_all_versions().wrap_connector(dial),
        HttpVersions::Upgradable => builder.enable_http1().wrap_connector(dial),
    };
    Ok(legacy::Client::builder(TokioExecutor::new()).build(connector))
}

/// Returns connections with these settings, which are opened when they are used.
///
/// # Errors
/// Returns an error if a certificate cannot be used.
pub(super) fn connections(tls: &Tls) -> Result<Connections, String> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(config(tls)?).https_or_http();
    let dial = Dial { service: None, resolver: Arc::new(NoServices) };
    let connector = match &tls.server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone()).map_err(|_| format!("invalid server name {name:?}"))?;
            let resolver = hyper_rustls::FixedServerNameResolver::new(name);
            builder.with_server_name_resolver(resolver).enable_all_versions().wrap_connector(dial)
        }
        None => builder.enable_all_versions().wrap_connector(dial),
    };
    Ok(legacy::Client::builder(TokioExecutor::new()).build(connector))
}

/// Parses certificates in PEM; without text, there are none.
///
/// # Errors
/// Returns an error if there is text without certificates, or one is damaged.
pub(crate) fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).flatten() {
        if section.0 == SectionKind::Certificate {
            x509_parser::parse_x509_certificate(&section.1).map_err(|_| "x509: malformed certificate".to_owned())?;
            found.push(CertificateDer::from(section.1));
        }
    }
    if found.is_empty() && !pem.is_empty() {
        return Err("data does not contain any valid RSA or ECDSA certificates".to_owned());
    }
    Ok(found)
}

/// Returns settings for connections to servers whose certificates are not verified.
///
/// # Errors
/// Returns an error if TLS is not available.
pub(crate) fn unverified() -> Result<ClientConfig, String> {
    config(&Tls { insecure: true, ..Tls::default() })
}

fn config(tls: &Tls) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous();
    let builder = if tls.insecure {
        builder.with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        let mut bundle = authorities(&tls.authorities)?;
        if tls.authorities.is_empty() {
            let system = rustls_native_certs::load_native_certs();
            if system.certs.is_empty() {
                tracing::warn!(errors = ?system.errors, "failed to load the certificate authorities of the system");
            }
            bundle = system.certs;
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(bundle.iter().cloned());
        // Certificates of the system are authorities only.
        let bundle = if tls.authorities.is_empty() { Vec::new() } else { bundle };
        match roots.is_empty() {
            // Every call fails, but the server starts.
            true => builder.cfg.with_root_certificates(roots),
            false => builder.with_custom_certificate_verifier(Arc::new(Trust::new(roots, bundle, provider)?)),
        }
    };
    let Some(identity) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|error| format!("client key: {error}"))?;
    builder.with_client_auth_cert(authorities(&identity.certificate)?, key).map_err(|error| error.to_string())
}

/// Accepts any certificate, for `insecure-skip-tls-verify`.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    check_signatures!(self => &self.0.signature_verification_algorithms);
}

/// Servers that a file names are not services.
struct NoServices;

#[async_trait]
impl ServiceResolver for NoServices {
    async fn resolve(&self, _: &str, _: &str, _: u16) -> Result<Vec<SocketAddr>, String> {
        Err("services cannot be resolved here".to_owned())
    }
}
