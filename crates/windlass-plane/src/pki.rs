//! The plane's certificates: a certificate authority, a serving certificate, the administrator's client certificate, and those
//! of front proxies.
//!
//! They are stored in one directory as `ca`, `server`, `admin`, `front-proxy-ca` and `front-proxy-client`, each as a `.crt` and a `.key` file in PEM (keys in
//! PKCS #8), so that other tools can issue more client certificates from the authority. Valid certificates are reused;
//! a certificate that is missing, about to expire or does not cover the server's names is reissued. A file that is
//! damaged or was not written by Windlass is never overwritten: loading fails and names the file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::{
    ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use crate::{CertificateAndKey, files};

mod check;
mod front_proxy;
mod issue;

pub use self::front_proxy::{FRONT_PROXY_CLIENT, FrontProxy};

/// Minimum remaining validity of a certificate when the server starts; otherwise it is reissued.
const RENEW_BEFORE: Duration = Duration::from_hours(30 * 24);

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
        /// `ca`, `server`, `admin` or one of front proxies.
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
                    Some("ca" | "front-proxy-ca") | None => {
                        Some(format!("restore the file, or remove {directory} to recreate all certificates"))
                    }
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
}

impl Pki {
    /// Returns a new certificate authority without storing it.
    pub fn new_authority() -> Result<CertificateAndKey, PkiError> {
        issue::authority(Duration::try_from(windlass_clock::now().as_duration()).unwrap_or_default())
    }

    /// Loads the certificates in a directory, and issues those that are missing or due for renewal.
    ///
    /// The serving certificate covers the names of an API server in a cluster, the loopback addresses, and `names`:
    /// DNS names or IP addresses.
    pub fn load_or_create(directory: &Path, names: &[String]) -> Result<Self, PkiError> {
        Self::load_or_create_at(directory, names, SystemTime::now())
    }

    fn load_or_create_at(directory: &Path, names: &[String], now: SystemTime) -> Result<Self, PkiError> {
        let names = issue::server_names(names)?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        files::create_directory(directory).map_err(|source| PkiError::Write { path: directory.to_owned(), source })?;

        let ca_files = PairFiles::new(directory, "ca");
        let ca = match ca_files.load_authority(now)? {
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
        let server = PairFiles::new(directory, "server").load_or_issue(
            |files, pair| issuer.check_server(files, pair, &names, now + RENEW_BEFORE),
            || issue::server(&issuer, &names, now),
        )?;
        let admin = PairFiles::new(directory, "admin").load_or_issue(
            |files, pair| issuer.check_client(files, pair, now + RENEW_BEFORE),
            || issue::admin(&issuer, now),
        )?;
        let front_proxy = FrontProxy::load_or_create(directory, now)?;
        Ok(Self { ca, server, admin, front_proxy })
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

    /// The certificates of front proxies.
    pub fn front_proxy(&self) -> &FrontProxy {
        &self.front_proxy
    }

    /// Returns the TLS configuration of a server: HTTP/2 and HTTP/1.1, with optional client certificates, which must be
    /// issued by the authority.
    pub fn server_config(&self) -> Result<ServerConfig, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(check::roots(&self.ca.certificate)?),
            provider.clone(),
        )
        .allow_unauthenticated()
        .build()
        .map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))?;
        self.server_config_with(verifier)
    }

    /// Returns the TLS configuration of a server with this verifier of client certificates.
    pub fn server_config_with(&self, verifier: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(PkiError::Tls)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(check::certificates(&self.server.certificate)?, check::key(&self.server.key)?)
            .map_err(PkiError::Tls)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Whether a stored certificate can be used.
enum Verdict {
    /// Use it.
    Good,
    /// Reissue it, for this reason.
    Due(&'static str),
}

/// Paths of a certificate and its key.
struct PairFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl PairFiles {
    fn new(directory: &Path, name: &str) -> Self {
        Self { certificate: directory.join(format!("{name}.crt")), key: directory.join(format!("{name}.key")) }
    }

    /// Loads the authority. Returns `None` if a new one has to be created.
    fn load_authority(&self, now: Duration) -> Result<Option<CertificateAndKey>, PkiError> {
        let (certificate, key) = self.read()?;
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(PkiError::Invalid {
                path: self.key.clone(),
                problem: "is missing, but its certificate exists".into(),
            }),
            (None, Some(key)) => {
                // Clients that trust this key keep trusting it.
                let ca = issue::authority_of_key(check::signing_key(&self.key, &key)?, now)?;
                self.write(&ca)?;
                Ok(Some(ca))
            }
            (Some(certificate), Some(key)) => {
                let pair = CertificateAndKey { certificate, key };
                match check::authority(self, &pair, now)? {
                    Verdict::Good => Ok(Some(pair)),
                    Verdict::Due(reason) => {
                        tracing::warn!(file = %self.certificate.display(), reason, "replacing the certificate authority");
                        Ok(None)
                    }
                }
            }
        }
    }

    /// Returns the stored pair if it is valid; otherwise issues and stores a new one.
    fn load_or_issue(
        &self,
        check: impl FnOnce(&Self, &CertificateAndKey) -> Result<Verdict, PkiError>,
        issue: impl FnOnce() -> Result<CertificateAndKey, PkiError>,
    ) -> Result<CertificateAndKey, PkiError> {
        if let (Some(certificate), Some(key)) = self.read()? {
            let pair = CertificateAndKey { certificate, key };
            match check(self, &pair)? {
                Verdict::Good => return Ok(pair),
                Verdict::Due(reason) => {
                    tracing::info!(file = %self.certificate.display(), reason, "reissuing the certificate");
                }
            }
        }
        let pair = issue()?;
        self.write(&pair)?;
        Ok(pair)
    }

    fn read(&self) -> Result<(Option<String>, Option<String>), PkiError> {
        let read = |path: &Path| {
            files::read(path).map_err(|source| match source.kind() {
                io::ErrorKind::InvalidData => PkiError::Invalid { path: path.to_owned(), problem: "is not PEM".into() },
                _ => PkiError::Read { path: path.to_owned(), source },
            })
        };
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        if key.is_some() {
            match files::close_to_others(&self.key) {
                Ok(false) => {}
                Ok(true) => {
                    tracing::warn!(file = %self.key.display(), "the private key was accessible to others; restricted its permissions")
                }
                Err(source) => return Err(PkiError::Write { path: self.key.clone(), source }),
            }
        }
        Ok((certificate, key))
    }

    /// Writes the key first: a certificate without its key would look like a lost key.
    fn write(&self, pair: &CertificateAndKey) -> Result<(), PkiError> {
        for (path, text, mode) in
            [(&self.key, &pair.key, files::SECRET), (&self.certificate, &pair.certificate, files::PUBLIC)]
        {
            files::replace(path, text, mode).map_err(|source| PkiError::Write { path: path.clone(), source })?;
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), PkiError> {
        for path in [&self.certificate, &self.key] {
            match fs::remove_file(path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(PkiError::Write { path: path.clone(), source });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
