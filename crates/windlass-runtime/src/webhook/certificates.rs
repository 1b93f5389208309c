//! The certificate that a server shows, and where it comes from.

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
pub(crate) use inject::Target;
pub use self_signed::{SelfSigned, SelfSignedError};
pub(crate) use self_signed::{permissions, secret_of};

use super::metrics::WebhookMetrics;

/// Why a certificate cannot be shown. Never says anything of the key.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no certificate in what should be one.
    #[error("not a certificate in PEM")]
    NoCertificate,
    /// There is no private key in what should be one.
    #[error("not a private key in PEM")]
    NoKey,
    /// The key cannot be used, or belongs to another certificate.
    #[error("the private key does not fit the certificate")]
    Mismatch(#[source] rustls::Error),
}

/// Holds the certificate that new connections see. Clones share it; changing it disturbs no connection.
#[derive(Clone, Debug, Default)]
pub struct CertResolver {
    current: Arc<ArcSwapOption<CertifiedKey>>,
}

/// Where certificates come from.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// Files that somebody else (cert-manager) writes.
    Files(CertificateFiles),
    /// Made by the operator itself.
    SelfSigned(Box<SelfSigned>),
    /// Whatever the program puts there.
    Given(CertResolver),
}

/// The source, with what it needs while serving.
#[derive(Debug)]
pub(super) enum Source {
    Files(files::Watcher),
    SelfSigned(Box<self_signed::CertificateRotator>),
    Given,
}

impl CertResolver {
    /// One without certificate: connections fail until there is one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows this certificate (with the chain to its authority) from now on. If it cannot be used nothing changes.
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

    /// Whether there is a certificate.
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
    /// `tls.crt` and `tls.key` in a folder, as a mounted Secret has them.
    pub fn mounted(folder: impl Into<PathBuf>) -> Self {
        Self::Files(CertificateFiles::in_folder(folder))
    }

    /// Gets the first certificate.
    pub(super) async fn prepare(
        self,
        resolver: &CertResolver,
        paths: Vec<String>,
        metrics: &WebhookMetrics,
    ) -> Result<Source, SourceError> {
        match self {
            Self::Files(files) => Ok(Source::Files(files::Watcher::start(files, resolver, metrics).await?)),
            Self::SelfSigned(options) => Ok(Source::SelfSigned(Box::new(
                self_signed::CertificateRotator::start(*options, resolver, paths).await?,
            ))),
            Self::Given(_) => Ok(Source::Given),
        }
    }

    /// The resolver that a server of this source is to use.
    pub(super) fn resolver(&self) -> CertResolver {
        match self {
            Self::Given(resolver) => resolver.clone(),
            _ => CertResolver::new(),
        }
    }
}

/// Why there is no first certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error(transparent)]
    Files(#[from] CertificateError),
    #[error(transparent)]
    SelfSigned(#[from] SelfSignedError),
}

impl Source {
    /// Keeps the certificate fresh, for as long as it is polled.
    pub(super) async fn run(self) {
        match self {
            Self::Files(watcher) => watcher.run().await,
            Self::SelfSigned(keeper) => keeper.run().await,
            Self::Given => std::future::pending().await,
        }
    }
}

/// The one cryptographic provider, whatever the process has installed.
pub(super) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}
