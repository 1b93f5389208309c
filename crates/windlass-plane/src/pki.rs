//! The plane's certificates: an authority, a serving certificate and the administrator's client certificate.
//!
//! They live in one folder as `ca`, `server` and `admin`, each a `.crt` and a `.key` in PEM (keys in PKCS #8), so that
//! other tools can issue further client certificates from the authority. What is there and good is used again; what is
//! missing, about to expire or does not cover the server's names is issued anew. A file that Windlass did not write, or
//! that is damaged, is never overwritten: loading fails and names it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::{ServerConfig, server::WebPkiClientVerifier};

use crate::{CertificateAndKey, files};

mod check;
mod issue;

/// Time a certificate must have left when the server starts; less than that and it is issued anew.
const RENEW_BEFORE: Duration = Duration::from_hours(30 * 24);

/// Why the certificates could not be loaded or made.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file or the folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or the folder could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is damaged, or is not what its name says.
    #[error("{} {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, as the end of a sentence about the file.
        problem: String,
    },
    /// A name that the serving certificate shall cover is neither a DNS name nor an IP address.
    #[error("{name:?} is neither a DNS name nor an IP address")]
    Name {
        /// The name.
        name: String,
    },
    /// A certificate could not be made.
    #[error("cannot issue the certificate {name:?}")]
    Issue {
        /// `ca`, `server` or `admin`.
        name: &'static str,
        /// What went wrong.
        source: rcgen::Error,
    },
    /// The TLS configuration could not be built from the certificates.
    #[error("cannot use the certificates")]
    Tls(#[source] rustls::Error),
}

impl PkiError {
    /// What a person may do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } | Self::Write { .. } => Some("choose a data folder that you may read and write".into()),
            Self::Invalid { path, .. } => {
                let folder = path.parent().unwrap_or(path).display();
                match path.file_stem().and_then(|name| name.to_str()) {
                    Some("ca") | None => {
                        Some(format!("put the right file back, or remove {folder} to have all certificates made anew"))
                    }
                    Some(name) => {
                        Some(format!("remove {folder}/{name}.crt and {folder}/{name}.key to have them made anew"))
                    }
                }
            }
            Self::Name { .. } | Self::Issue { .. } | Self::Tls(_) => None,
        }
    }
}

/// The three certificates of a plane.
#[derive(Debug, Clone)]
pub struct Pki {
    ca: CertificateAndKey,
    server: CertificateAndKey,
    admin: CertificateAndKey,
}

impl Pki {
    /// Returns a new certificate authority, which is stored nowhere.
    pub fn new_authority() -> Result<CertificateAndKey, PkiError> {
        issue::authority(Duration::try_from(windlass_clock::now().as_duration()).unwrap_or_default())
    }

    /// Loads the certificates of a folder, and makes what is missing or due.
    ///
    /// The serving certificate covers the names of an API server in a cluster, the loopback addresses, and `names`:
    /// DNS names or IP addresses.
    pub fn load_or_create(folder: &Path, names: &[String]) -> Result<Self, PkiError> {
        Self::load_or_create_at(folder, names, SystemTime::now())
    }

    fn load_or_create_at(folder: &Path, names: &[String], now: SystemTime) -> Result<Self, PkiError> {
        let names = issue::server_names(names)?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        files::create_folder(folder).map_err(|source| PkiError::Write { path: folder.to_owned(), source })?;

        let ca_files = PairFiles::new(folder, "ca");
        let ca = match ca_files.load_authority(now)? {
            Some(ca) => ca,
            None => {
                // The old authority's certificates are of no use under the new one. They go first: a crash in between
                // must not leave a mixture behind.
                for name in ["server", "admin"] {
                    PairFiles::new(folder, name).remove()?;
                }
                let ca = issue::authority(now)?;
                ca_files.write(&ca)?;
                ca
            }
        };

        let issuer = check::Authority::new(&ca_files, &ca)?;
        let server = PairFiles::new(folder, "server").load_or_issue(
            |files, pair| issuer.check_server(files, pair, &names, now + RENEW_BEFORE),
            || issue::server(&issuer, &names, now),
        )?;
        let admin = PairFiles::new(folder, "admin").load_or_issue(
            |files, pair| issuer.check_client(files, pair, now + RENEW_BEFORE),
            || issue::admin(&issuer, now),
        )?;
        Ok(Self { ca, server, admin })
    }

    /// The authority that issued the other two and verifies clients.
    pub fn ca(&self) -> &CertificateAndKey {
        &self.ca
    }

    /// What the server shows to clients.
    pub fn server(&self) -> &CertificateAndKey {
        &self.server
    }

    /// What the administrator shows to the server: user `admin` of the group `system:masters`.
    pub fn admin(&self) -> &CertificateAndKey {
        &self.admin
    }

    /// The TLS side of the server: HTTP/2 and HTTP/1.1; a client may show a certificate, which the authority must have
    /// issued, or none.
    pub fn server_config(&self) -> Result<ServerConfig, PkiError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(check::roots(&self.ca.certificate)?),
            provider.clone(),
        )
        .allow_unauthenticated()
        .build()
        .map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))?;
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

/// What has become of a certificate that was found.
enum Verdict {
    /// Use it.
    Good,
    /// Issue it anew, for this reason.
    Due(&'static str),
}

/// Where a certificate and its key are kept.
struct PairFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl PairFiles {
    fn new(folder: &Path, name: &str) -> Self {
        Self { certificate: folder.join(format!("{name}.crt")), key: folder.join(format!("{name}.key")) }
    }

    /// The authority, unless it has to be made.
    fn load_authority(&self, now: Duration) -> Result<Option<CertificateAndKey>, PkiError> {
        let (certificate, key) = self.read()?;
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(PkiError::Invalid {
                path: self.key.clone(),
                problem: "is missing, though its certificate is there".into(),
            }),
            (None, Some(key)) => {
                // Whoever trusted this key goes on trusting it.
                let ca = issue::authority_of_key(check::signing_key(&self.key, &key)?, now)?;
                self.write(&ca)?;
                Ok(Some(ca))
            }
            (Some(certificate), Some(key)) => {
                let pair = CertificateAndKey { certificate, key };
                match check::authority(self, &pair, now)? {
                    Verdict::Good => Ok(Some(pair)),
                    Verdict::Due(reason) => {
                        tracing::warn!(file = %self.certificate.display(), reason, "making a new authority");
                        Ok(None)
                    }
                }
            }
        }
    }

    /// The pair of the files if it is there and good, else a new one, which is then written.
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
                    tracing::info!(file = %self.certificate.display(), reason, "issuing the certificate anew");
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
                Ok(true) => tracing::warn!(file = %self.key.display(), "others could read this key; now they cannot"),
                Err(source) => return Err(PkiError::Write { path: self.key.clone(), source }),
            }
        }
        Ok((certificate, key))
    }

    /// Writes the key first: a certificate without its key could not be told from a lost key.
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
