//! Keeps the certificates of a running plane valid.
//!
//! Certificates are reissued before they expire, and certificates that someone has replaced on disk are loaded. New
//! connections use the new certificate, to aggregated API servers as well; open ones continue. The kubeconfig follows
//! the administrator's certificate. The authority does not change while the plane runs, because loops and clients hold
//! it; its expiry is announced.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::server::danger::ClientCertVerifier;
use windlass::webhook::CertResolver;

use crate::{
    CertificateAndKey, Pki, PkiError, files,
    kubeconfig::kubeconfig,
    pki::{self, RENEW_BEFORE},
};

/// Interval at which the certificates are checked. By the system's clock, a suspended machine has missed any number of checks.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(60);

/// Interval at which the expiry of the authority is announced.
const ANNOUNCE_EVERY: Duration = Duration::from_hours(24);

const DAY: u64 = 24 * 3600;

/// Called with every new certificate.
type Follower = Box<dyn Fn(&CertificateAndKey) + Send>;

/// The certificates of a running plane.
pub(crate) struct Renewal {
    pki: Pki,
    directory: PathBuf,
    names: Vec<String>,
    serving: CertResolver,
    /// Notified of a new front proxy certificate.
    follower: Option<Follower>,
    url: String,
    kubeconfig_path: PathBuf,
    /// The kubeconfig as it was written last.
    kubeconfig: String,
    /// The problems that were logged.
    problems: Vec<String>,
    /// Time of the last announcement of the authority's expiry, since the Unix epoch.
    announced: Option<Duration>,
}

impl Renewal {
    /// Takes over the certificates that were loaded from a directory for these names.
    pub(crate) fn new(pki: Pki, directory: &Path, names: Vec<String>) -> Result<Self, PkiError> {
        let serving = CertResolver::new();
        pki.serve_with(&serving)?;
        let mut renewal = Self {
            pki,
            directory: directory.to_owned(),
            names,
            serving,
            follower: None,
            url: String::new(),
            kubeconfig_path: PathBuf::new(),
            kubeconfig: String::new(),
            problems: Vec::new(),
            announced: None,
        };
        renewal.announce_expiry(pki::now());
        Ok(renewal)
    }

    /// The current certificates.
    pub(crate) fn pki(&self) -> &Pki {
        &self.pki
    }

    /// Returns a TLS configuration that presents the current certificate to each new connection, with this verifier of
    /// client certificates.
    pub(crate) fn server_config(
        &self,
        verifier: Arc<dyn ClientCertVerifier>,
    ) -> Result<Arc<rustls::ServerConfig>, PkiError> {
        Ok(Arc::new(pki::tls_config(&self.serving, verifier)?))
    }

    /// Sets the function to call with a renewed front proxy certificate.
    pub(crate) fn on_front_proxy(&mut self, follower: impl Fn(&CertificateAndKey) + Send + 'static) {
        self.follower = Some(Box::new(follower));
    }

    /// Writes the kubeconfig for a server at this URL, and keeps it up to date from now on.
    pub(crate) fn write_kubeconfig(&mut self, path: &Path, url: &str) -> std::io::Result<()> {
        (self.kubeconfig_path, self.url) = (path.to_owned(), url.to_owned());
        self.update_kubeconfig().map(|_| ())
    }

    /// Returns whether it had to be written.
    fn update_kubeconfig(&mut self) -> std::io::Result<bool> {
        let text = kubeconfig(&self.pki, &self.url);
        let changed = text != self.kubeconfig;
        if changed {
            files::replace(&self.kubeconfig_path, &text, files::SECRET)?;
            self.kubeconfig = text;
        }
        Ok(changed)
    }

    /// Checks the certificates forever. Dropping the future lets a check that has begun complete.
    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let now = pki::now();
            let checking = tokio::task::spawn_blocking(move || {
                self.check(now);
                self
            });
            self = match checking.await {
                Ok(renewal) => renewal,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime is shutting down.
                Err(_) => std::future::pending().await,
            };
        }
    }

    /// Renews what is due at this time, which is since the Unix epoch.
    pub(crate) fn check(&mut self, now: Duration) {
        let server = self.pki.server().certificate.clone();
        let admin = self.pki.admin().certificate.clone();
        let proxy = self.pki.front_proxy().client.certificate.clone();
        let mut problems: Vec<String> =
            self.pki.renew(&self.directory, &self.names, now).iter().map(describe).collect();
        if self.pki.server().certificate != server {
            match self.pki.serve_with(&self.serving) {
                Ok(()) => tracing::info!("new connections use the new serving certificate"),
                Err(error) => problems.push(describe(&error)),
            }
        }
        if self.pki.front_proxy().client.certificate != proxy
            && let Some(follower) = &self.follower
        {
            follower(&self.pki.front_proxy().client);
            tracing::info!("new connections to aggregated API servers use the new certificate");
        }
        match self.update_kubeconfig() {
            Ok(true) => {
                tracing::info!(file = %self.kubeconfig_path.display(), "wrote the kubeconfig with the new certificate")
            }
            Ok(false) => {}
            Err(error) => problems.push(format!("failed to write {}: {error}", self.kubeconfig_path.display())),
        }
        if self.pki.admin().certificate != admin {
            tracing::info!("the administrator has a new certificate; the old one is valid until it expires");
        }
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            tracing::warn!(problem, "failed to renew a certificate; the current one stays in use");
        }
        self.problems = problems;
        self.announce_expiry(now);
    }

    fn announce_expiry(&mut self, now: Duration) {
        let expiry = self.pki.authority_expiry();
        let left = expiry.not_after.saturating_sub(now);
        if left > RENEW_BEFORE || self.announced.is_some_and(|last| now < last + ANNOUNCE_EVERY) {
            return;
        }
        self.announced = Some(now);
        let days = left.as_secs() / DAY;
        let hint = match expiry.is_ours {
            true => "restart windlass to replace it; all clients then need the new kubeconfig",
            false => "replace ca.crt and ca.key and restart windlass; all clients then need the new kubeconfig",
        };
        tracing::warn!(directory = %self.directory.display(), days, hint, "the certificate authority is about to expire");
    }
}

/// An error with its causes.
fn describe(error: &PkiError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

#[cfg(test)]
mod tests;
