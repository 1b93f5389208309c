//! TLS of the server of metrics and debug pages.

use std::{sync::Arc, time::Duration};

use rcgen::{ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::{ServerConfig, server::NoServerSessionStorage};
use windlass_tls::leaf_params;

use crate::{
    metrics::Metrics,
    webhook::{CertResolver, CertificateError, CertificateFiles, CertificateMetrics, Watcher, provider},
};

/// Lifetime of a self-signed certificate. Clients cannot verify it, so it has no permanent names.
const LIFETIME: Duration = Duration::from_hours(24 * 365);

/// Error from setting up HTTPS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpsError {
    /// The certificate files are invalid.
    #[error("no serving certificate")]
    Files(#[source] CertificateError),
    /// The self-signed certificate could not be created.
    #[error("failed to create a self-signed certificate")]
    Issue(#[source] rcgen::Error),
    /// The self-signed certificate could not be used.
    #[error("failed to use a self-signed certificate")]
    Use(#[source] CertificateError),
    /// TLS could not be set up.
    #[error("failed to set up TLS")]
    Tls(#[source] rustls::Error),
}

/// TLS of a server, with the source of its certificate.
pub(super) struct Https {
    pub(super) config: Arc<ServerConfig>,
    pub(super) source: Source,
}

/// Source of the certificate.
pub(super) enum Source {
    Files(Watcher),
    SelfSigned(CertResolver),
}

impl Https {
    /// Gets the first certificate: that of the files, or a self-signed one.
    pub(super) async fn start(files: Option<CertificateFiles>, metrics: &Metrics) -> Result<Self, HttpsError> {
        let resolver = CertResolver::new();
        let source = match files {
            Some(files) => {
                let metrics = CertificateMetrics::shared(metrics);
                Source::Files(Watcher::start(files, &resolver, &metrics).await.map_err(HttpsError::Files)?)
            }
            None => {
                issue(&resolver)?;
                Source::SelfSigned(resolver.clone())
            }
        };
        let builder = ServerConfig::builder_with_provider(Arc::new(provider())).with_safe_default_protocol_versions();
        let builder = builder.map_err(HttpsError::Tls)?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // No session resumption, so that every handshake uses the current certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), source })
    }
}

impl Source {
    /// Keeps the certificate up to date while it is polled.
    pub(super) async fn run(self) {
        match self {
            Self::Files(watcher) => watcher.run().await,
            Self::SelfSigned(resolver) => loop {
                tokio::time::sleep(LIFETIME / 2).await;
                if let Err(error) = issue(&resolver) {
                    let error = crate::Error::from(error);
                    tracing::warn!(%error, "keeping the old certificate of metrics");
                }
            },
        }
    }
}

/// Issues a self-signed certificate.
fn issue(resolver: &CertResolver) -> Result<(), HttpsError> {
    let now = windlass_clock::now().as_duration();
    let now = Duration::try_from(now).unwrap_or_default();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let mut params = leaf_params("localhost", &names, now, now + LIFETIME).map_err(HttpsError::Issue)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Its own issuer has no key identifier to refer to.
    params.use_authority_key_identifier_extension = false;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(HttpsError::Issue)?;
    let certificate = params.self_signed(&key).map_err(HttpsError::Issue)?;
    resolver.set_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).map_err(HttpsError::Use)
}
