//! Certificates in files that another program writes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use super::{CertResolver, CertificateError};
use crate::webhook::metrics::CertificateMetrics;

/// A certificate and its key in files, which are polled.
///
/// New content is used for new connections. While the files are invalid (half-written, or a key of another
/// certificate), the last valid certificate stays in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Certificate with its chain, in PEM.
    pub certificate: PathBuf,
    /// Private key in PEM.
    pub key: PathBuf,
    /// Polling interval; 10 seconds by default. The content is compared, as a kubelet swaps a link when a Secret
    /// changes.
    pub every: Duration,
}

/// Polls the files.
#[derive(Debug)]
pub(crate) struct Watcher {
    files: CertificateFiles,
    resolver: CertResolver,
    metrics: CertificateMetrics,
    /// The last certificate and key, valid or not, so that an error is logged only once.
    seen: Option<(Vec<u8>, Vec<u8>)>,
}

impl CertificateFiles {
    /// Uses `tls.crt` and `tls.key` in a directory.
    pub fn in_directory(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { certificate: folder.join("tls.crt"), key: folder.join("tls.key"), every: Duration::from_secs(10) }
    }
}

impl Watcher {
    /// Reads the files, which must be valid the first time.
    pub(crate) async fn start(
        files: CertificateFiles,
        resolver: &CertResolver,
        metrics: &CertificateMetrics,
    ) -> Result<Self, CertificateError> {
        let mut this = Self { files, resolver: resolver.clone(), metrics: metrics.clone(), seen: None };
        this.look().await?;
        Ok(this)
    }

    /// Uses new certificates while it is polled.
    pub(crate) async fn run(mut self) {
        let mut interval = tokio::time::interval(self.files.every.max(Duration::from_millis(1)));
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval.tick().await;
        loop {
            interval.tick().await;
            match self.look().await {
                Ok(true) => info!(file = %self.files.certificate.display(), "certificate replaced"),
                Ok(false) => {}
                Err(error) => {
                    let error = crate::Error::from(error);
                    warn!(file = %self.files.certificate.display(), %error, "keeping the old certificate");
                }
            }
        }
    }

    /// Returns whether there is a new certificate.
    async fn look(&mut self) -> Result<bool, CertificateError> {
        self.metrics.reads.inc();
        let looked = self.read_and_set().await;
        if looked.is_err() {
            self.metrics.errors.inc();
        }
        looked
    }

    async fn read_and_set(&mut self) -> Result<bool, CertificateError> {
        let read = Some(self.read().await?);
        if self.seen == read {
            return Ok(false);
        }
        self.seen = read;
        let Some((certificate, key)) = &self.seen else { return Ok(false) };
        self.resolver.set_pem(certificate, key)?;
        Ok(true)
    }
}

impl Watcher {
    /// Reads a matching certificate and key: if the certificate is unchanged after the key was read, the link was not
    /// swapped in between.
    async fn read(&self) -> Result<(Vec<u8>, Vec<u8>), CertificateError> {
        let mut certificate = read(&self.files.certificate).await?;
        loop {
            let key = read(&self.files.key).await?;
            let again = read(&self.files.certificate).await?;
            if again == certificate {
                return Ok((certificate, key));
            }
            certificate = again;
        }
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = tokio::fs::read(path).await;
    read.map_err(|source| CertificateError::Read { path: path.to_owned(), source })
}
