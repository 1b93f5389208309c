//! Serving certificates of a webhook server, and their sources.

mod authority;
mod files;
mod inject;
mod secret;
mod self_signed;

use std::{path::PathBuf, sync::Arc};

use arc_swap::ArcSwapOption;
use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

pub use files::CertificateFiles;
pub(crate) use files::Watcher;
pub(crate) use inject::CaBundleTarget;
pub use self_signed::{SelfSigned, SelfSignedError};
pub(crate) use self_signed::{permissions, secret_of};

use super::metrics::CertificateMetrics;

/// Error of a serving certificate. Never contains anything of the key.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file could not be read.
    #[error("failed to read {path}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// There is no certificate in the PEM data.
    #[error("not a PEM-encoded certificate")]
    NoCertificate,
    /// There is no private key in the PEM data.
    #[error("not a PEM-encoded private key")]
    NoKey,
    /// The key is invalid, or belongs to another certificate.
    #[error("the private key does not match the certificate")]
    Mismatch(#[source] rustls::Error),
}

/// Holds the certificate for new connections. Clones share it; a change does not affect open connections.
#[derive(Clone, Debug, Default)]
pub struct CertResolver {
    current: Arc<ArcSwapOption<CertifiedKey>>,
}

/// Source of certificates.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// Files that are written by another program, such as cert-manager.
    Files(CertificateFiles),
    /// Issued by the operator itself.
    SelfSigned(Box<SelfSigned>),
    /// Set by the program.
    Given(CertResolver),
}

/// A source with its state while serving.
#[derive(Debug)]
pub(super) enum Source {
    Files(files::Watcher),
    SelfSigned(Box<self_signed::CertificateRotator>),
    Given,
}

impl CertResolver {
    /// Creates a resolver without a certificate: connections fail until there is one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses this certificate (with its chain) from now on. On error, nothing changes.
    pub fn set_pem(&self, chain: &[u8], key: &[u8]) -> Result<(), CertificateError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|_| CertificateError::NoCertificate)?;
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::NoKey)?;
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(CertificateError::Mismatch)?;
        self.current.store(Some(Arc::new(key)));
        Ok(())
    }

    /// Returns whether there is a certificate.
    pub fn is_ready(&self) -> bool {
        self.current.load().is_some()
    }
}

impl ResolvesServerCert for CertResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

impl Certificates {
    /// Uses `tls.crt` and `tls.key` in a directory, as in a mounted Secret.
    pub fn mounted(folder: impl Into<PathBuf>) -> Self {
        Self::Files(CertificateFiles::in_directory(folder))
    }

    /// Gets the first certificate.
    pub(super) async fn prepare(
        self,
        resolver: &CertResolver,
        paths: Vec<String>,
        metrics: &CertificateMetrics,
    ) -> Result<Source, SourceError> {
        match self {
            Self::Files(files) => Ok(Source::Files(files::Watcher::start(files, resolver, metrics).await?)),
            Self::SelfSigned(options) => Ok(Source::SelfSigned(Box::new(
                self_signed::CertificateRotator::start(*options, resolver, paths).await?,
            ))),
            Self::Given(_) => Ok(Source::Given),
        }
    }

    /// Returns the resolver for the server.
    pub(super) fn resolver(&self) -> CertResolver {
        match self {
            Self::Given(resolver) => resolver.clone(),
            _ => CertResolver::new(),
        }
    }
}

/// Error from getting the first certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error(transparent)]
    Files(#[from] CertificateError),
    #[error(transparent)]
    SelfSigned(#[from] SelfSignedError),
}

impl Source {
    /// Keeps the certificate up to date while it is polled.
    pub(super) async fn run(self) {
        match self {
            Self::Files(watcher) => watcher.run().await,
            Self::SelfSigned(keeper) => keeper.run().await,
            Self::Given => std::future::pending().await,
        }
    }
}

/// Returns the cryptographic provider, regardless of what the process has installed.
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}
