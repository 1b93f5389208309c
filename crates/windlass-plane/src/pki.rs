//! The plane's certificates: a certificate authority, a serving certificate, the administrator's client certificate, and those
//! of front proxies.
//!
//! They are stored in one directory as `ca`, `server`, `admin`, `front-proxy-ca` and `front-proxy-client`, each as a `.crt` and a `.key` file in PEM (keys in
//! PKCS #8), so that other tools can issue more client certificates from the authority. Valid certificates are reused;
//! a certificate that is missing, about to expire or does not cover the server's names is reissued. A file that is
//! damaged or was not written by Windlass is never overwritten: loading fails and names the file.
//!
//! An empty file, as a crash may leave behind, is reissued if nothing is lost: a serving or client certificate always, the
//! authority's certificate from its key, and the authority itself only if nothing was issued from it yet.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ServerConfig,
    pki_types::UnixTime,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    time_provider::TimeProvider,
};
use windlass::webhook::CertResolver;

use crate::{
    CertificateAndKey,
    files::{self, Contents},
};

mod check;
mod front_proxy;
mod issue;
mod request;
mod stored;

use self::stored::{PairFiles, Verdict};
pub use self::{
    front_proxy::{FRONT_PROXY_CLIENT, FrontProxy},
    request::{ClientCertificateRequest, certificate_expires},
};

/// Minimum remaining validity; certificates with less are reissued.
pub(crate) const RENEW_BEFORE: Duration = Duration::from_hours(30 * 24);

/// An error while loading or issuing the certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file or the directory could not be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file or the directory could not be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is damaged or has unexpected contents.
    #[error("{} {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problem, worded to follow the path of the file.
        problem: String,
    },
    /// A name for the serving certificate is neither a DNS name nor an IP address.
    #[error("{name:?} is neither a DNS name nor an IP address")]
    Name {
        /// The name.
        name: String,
    },
    /// A certificate could not be issued.
    #[error("failed to issue certificate {name:?}")]
    Issue {
        /// `ca`, `server`, `admin`, `client` or one of front proxies.
        name: &'static str,
        /// The error of the certificate library.
        source: rcgen::Error,
    },
    /// The TLS configuration could not be built from the certificates.
    #[error("failed to build the TLS configuration")]
    Tls(#[source] rustls::Error),
}

impl PkiError {
    /// Returns advice on how to resolve the error, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } | Self::Write { .. } => {
                Some("choose a data directory that you can read and write".into())
            }
            Self::Invalid { path, .. } => {
                let directory = path.parent().unwrap_or(path).display();
                match path.file_stem().and_then(|name| name.to_str()) {
                    Some("front-proxy-ca") => Some(format!(
                        "restore the file, or remove {directory}/front-proxy-ca.crt and {directory}/front-proxy-ca.key to recreate \
                         the certificates of front proxies"
                    )),
                    Some("ca") | None => Some(format!(
                        "restore the file, or remove {directory}/ca.crt and {directory}/ca.key to recreate all certificates: \
                         clients then need the new kubeconfig"
                    )),
                    Some(name) => {
                        Some(format!("remove {directory}/{name}.crt and {directory}/{name}.key to recreate them"))
                    }
                }
            }
            Self::Name { .. } | Self::Issue { .. } | Self::Tls(_) => None,
        }
    }
}

/// The certificates of a plane.
#[derive(Debug, Clone)]
pub struct Pki {
    ca: CertificateAndKey,
    server: CertificateAndKey,
    admin: CertificateAndKey,
    front_proxy: FrontProxy,
    expiry: AuthorityExpiry,
}

/// Expiry of the authority, and who replaces it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuthorityExpiry {
    /// Since the Unix epoch.
    pub(crate) not_after: Duration,
    /// Whether Windlass created it, and replaces it when it starts.
    pub(crate) is_ours: bool,
}

impl Pki {
    /// Returns a new certificate authority without storing it.
    pub fn new_authority() -> Result<CertificateAndKey, PkiError> {
        issue::authority(now())
    }

    /// Loads the certificates in a directory, and issues certificates that are missing or due for renewal.
    ///
    /// The serving certificate covers the names of an API server in a cluster, the loopback addresses, and `names`:
    /// DNS names or IP addresses.
    pub fn load_or_create(directory: &Path, names: &[String]) -> Result<Self, PkiError> {
        Self::load_or_create_at(directory, names, now())
    }

    pub(crate) fn load_or_create_at(directory: &Path, names: &[String], now: Duration) -> Result<Self, PkiError> {
        let names = issue::server_names(names)?;
        files::create_directory(directory).map_err(|source| PkiError::Write { path: directory.to_owned(), source })?;

        let ca_files = PairFiles::new(directory, "ca");
        let ca = match ca_files.load_authority(directory, now)? {
            Some(ca) => ca,
            None => {
                // Certificates of the old authority are useless under the new one. They are removed first, so that a
                // crash in between does not leave a mixture behind.
                for name in ["server", "admin"] {
                    PairFiles::new(directory, name).remove()?;
                }
                let ca = issue::authority(now)?;
                ca_files.write(&ca)?;
                ca
            }
        };

        let issuer = check::Authority::new(&ca_files, &ca)?;
        let server = load_server(directory, &issuer, &names, now)?;
        let admin = load_admin(directory, &issuer, now)?;
        let expiry = check::expiry(&ca_files, &ca)?;
        let front_proxy = FrontProxy::load_or_create(directory, now)?;
        Ok(Self { ca, server, admin, front_proxy, expiry })
    }

    /// Reissues the serving certificate and the client certificates if they are due, and loads those that someone has replaced in the
    /// directory. The authority stays the same. Returns the problems; the certificates in question stay as they are.
    pub(crate) fn renew(&mut self, directory: &Path, names: &[String], now: Duration) -> Vec<PkiError> {
        let mut problems = Vec::new();
        problems.extend(self.front_proxy.renew(directory, now).err());
        let renewed = self.renew_all(directory, names, now, &mut problems);
        problems.extend(renewed.err());
        problems
    }

    fn renew_all(
        &mut self,
        directory: &Path,
        names: &[String],
        now: Duration,
        problems: &mut Vec<PkiError>,
    ) -> Result<(), PkiError> {
        let names = issue::server_names(names)?;
        let ca_files = PairFiles::new(directory, "ca");
        // A user replaces all certificates: those of the new authority must not be touched.
        ca_files.check_unchanged(&self.ca)?;
        let issuer = check::Authority::new(&ca_files, &self.ca)?;
        match load_server(directory, &issuer, &names, now) {
            Ok(server) => self.server = server,
            Err(problem) => problems.push(problem),
        }
        self.admin = load_admin(directory, &issuer, now)?;
        Ok(())
    }

    /// The authority that issued the other two certificates and verifies clients.
    pub fn ca(&self) -> &CertificateAndKey {
        &self.ca
    }

    /// The serving certificate.
    pub fn server(&self) -> &CertificateAndKey {
        &self.server
    }

    /// The administrator's client certificate: user `admin` in the group `system:masters`.
    pub fn admin(&self) -> &CertificateAndKey {
        &self.admin
    }

    /// Returns the time at which the authority expires.
    pub(crate) fn authority_expiry(&self) -> AuthorityExpiry {
        self.expiry
    }

    /// The certificates of front proxies.
    pub fn front_proxy(&self) -> &FrontProxy {
        &self.front_proxy
    }

    /// Returns the TLS configuration of a server: HTTP/2 and HTTP/1.1, with optional client certificates, which must be
    /// issued by the authority.
    pub fn server_config(&self) -> Result<ServerConfig, PkiError> {
        let certificate = CertResolver::new();
        self.serve_with(&certificate)?;
        tls_config(&certificate, self.client_verifier()?)
    }

    /// Presents the serving certificate to new connections.
    pub(crate) fn serve_with(&self, resolver: &CertResolver) -> Result<(), PkiError> {
        resolver
            .set_pem(self.server.certificate.as_bytes(), self.server.key.as_bytes())
            .map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))
    }

    /// Returns the verifier of client certificates that the authority has issued. Clients need no certificate.
    pub(crate) fn client_verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, PkiError> {
        let roots = Arc::new(check::roots(&self.ca.certificate)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).allow_unauthenticated().build();
        verifier.map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))
    }

    /// Returns a certificate for these DNS names and IP addresses that is its own authority, without storing it.
    pub fn self_signed(names: &[String]) -> Result<CertificateAndKey, PkiError> {
        issue::self_signed(names, now())
    }
}

/// Returns the TLS configuration of a server whose certificate may change, with this verifier of client certificates.
pub(crate) fn tls_config(
    certificate: &CertResolver,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, PkiError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(Clock))
        .with_safe_default_protocol_versions()
        .map_err(PkiError::Tls)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(certificate.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Returns when the authority in a directory expires; `None` if there is none that can be read.
pub fn authority_expires(directory: &Path) -> Option<jiff::Timestamp> {
    let files = PairFiles::new(directory, "ca");
    let Ok(Contents::Text(certificate)) = files::read(&files.certificate) else { return None };
    let expiry = check::expiry(&files, &CertificateAndKey { certificate, key: String::new() }).ok()?;
    jiff::Timestamp::from_second(expiry.not_after.as_secs().try_into().ok()?).ok()
}

/// The current time since the Unix epoch.
pub(crate) fn now() -> Duration {
    Duration::try_from(windlass_clock::now().as_duration()).unwrap_or_default()
}

/// The time by which client certificates are verified.
#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(now()))
    }
}

fn load_server(
    directory: &Path,
    issuer: &check::Authority,
    names: &[issue::CoveredName],
    now: Duration,
) -> Result<CertificateAndKey, PkiError> {
    PairFiles::new(directory, "server").load_or_issue(
        |files, pair| issuer.check_server(files, pair, names, issuer.limit(now + RENEW_BEFORE)),
        || issue::server(issuer, names, now),
    )
}

fn load_admin(directory: &Path, issuer: &check::Authority, now: Duration) -> Result<CertificateAndKey, PkiError> {
    PairFiles::new(directory, "admin").load_or_issue(
        |files, pair| issuer.check_client(files, pair, issuer.limit(now + RENEW_BEFORE)),
        || issue::admin(issuer, now),
    )
}

#[cfg(test)]
mod tests;
