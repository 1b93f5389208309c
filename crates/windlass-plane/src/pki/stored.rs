//! A certificate and its key on disk.

use super::*;

/// Whether a stored certificate can be used.
pub(super) enum Verdict {
    /// Use it.
    Good,
    /// Reissue it, for this reason.
    Due(&'static str),
}

/// Paths of a certificate and its key.
pub(super) struct PairFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl PairFiles {
    pub(super) fn new(directory: &Path, name: &str) -> Self {
        Self { certificate: directory.join(format!("{name}.crt")), key: directory.join(format!("{name}.key")) }
    }

    /// Loads the authority. Returns `None` if a new one has to be created.
    pub(super) fn load_authority(
        &self,
        directory: &Path,
        now: Duration,
    ) -> Result<Option<CertificateAndKey>, PkiError> {
        use Contents::{Empty, Missing, Text};
        match self.read()? {
            (Missing, Missing) => Ok(None),
            (Missing | Empty, Missing | Empty) if !has_issued(directory)? => {
                tracing::warn!(file = %self.key.display(), "the certificate authority is empty and has issued nothing yet: replacing it");
                Ok(None)
            }
            (_, Empty) => Err(invalid(&self.key, "is empty")),
            (Empty, Missing) => Err(invalid(&self.certificate, "is empty")),
            (Text(_), Missing) => Err(invalid(&self.key, "is missing, but its certificate exists")),
            (certificate @ (Missing | Empty), Text(key)) => {
                // A certificate of the same key and name is as good, so that clients and certificates stay valid.
                let problem = if certificate == Empty { "is empty" } else { "is missing" };
                for name in ["server", "admin"] {
                    let issued = Self::new(directory, name).certificate;
                    if let Text(text) = read(&issued)?
                        && !check::names_our_authority(&text)
                    {
                        return Err(invalid(&self.certificate, problem));
                    }
                }
                tracing::warn!(file = %self.certificate.display(), "the file {problem}: recreating it from its key");
                let ca = issue::authority_of_key(check::signing_key(&self.key, &key)?, now)?;
                self.write(&ca)?;
                Ok(Some(ca))
            }
            (Text(certificate), Text(key)) => {
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

    /// Fails if the files contain another pair. Files that are missing or empty are no reason to stop using the pair.
    pub(super) fn check_unchanged(&self, pair: &CertificateAndKey) -> Result<(), PkiError> {
        let (certificate, key) = self.read()?;
        for (path, found, used) in [(&self.certificate, certificate, &pair.certificate), (&self.key, key, &pair.key)] {
            if matches!(&found, Contents::Text(text) if text != used) {
                return Err(invalid(path, "has changed; it is used after a restart"));
            }
        }
        Ok(())
    }

    /// Returns the stored pair if it is valid; otherwise issues and stores a new one.
    pub(super) fn load_or_issue(
        &self,
        check: impl FnOnce(&Self, &CertificateAndKey) -> Result<Verdict, PkiError>,
        issue: impl FnOnce() -> Result<CertificateAndKey, PkiError>,
    ) -> Result<CertificateAndKey, PkiError> {
        use Contents::{Empty, Missing, Text};
        let file = self.certificate.display();
        match self.read()? {
            (Text(certificate), Text(key)) => {
                let pair = CertificateAndKey { certificate, key };
                match check(self, &pair)? {
                    Verdict::Good => return Ok(pair),
                    Verdict::Due(reason) => tracing::info!(%file, reason, "reissuing the certificate"),
                }
            }
            (Missing, Missing) => {}
            (Empty, _) | (_, Empty) => {
                tracing::warn!(%file, "reissuing the certificate: it or its key is empty, perhaps after a crash");
            }
            (Missing, _) | (_, Missing) => {
                tracing::info!(%file, "reissuing the certificate: it or its key is missing");
            }
        }
        let pair = issue()?;
        self.write(&pair)?;
        Ok(pair)
    }

    pub(super) fn read(&self) -> Result<(Contents, Contents), PkiError> {
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        if key != Contents::Missing {
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
    pub(super) fn write(&self, pair: &CertificateAndKey) -> Result<(), PkiError> {
        for (path, text, mode) in
            [(&self.key, &pair.key, files::SECRET), (&self.certificate, &pair.certificate, files::PUBLIC)]
        {
            files::replace(path, text, mode).map_err(|source| PkiError::Write { path: path.clone(), source })?;
        }
        Ok(())
    }

    pub(super) fn remove(&self) -> Result<(), PkiError> {
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

fn read(path: &Path) -> Result<Contents, PkiError> {
    files::read(path).map_err(|source| match source.kind() {
        io::ErrorKind::InvalidData => invalid(path, "is not PEM"),
        _ => PkiError::Read { path: path.to_owned(), source },
    })
}

/// Returns whether the authority in a directory may have issued anything: whether there is a certificate, a file of the
/// user or a kubeconfig that is not empty. These are written after the authority.
fn has_issued(directory: &Path) -> Result<bool, PkiError> {
    let failed = |source| PkiError::Read { path: directory.to_owned(), source };
    let beside = directory.parent().map(|parent| parent.join("kubeconfig"));
    if beside.and_then(|path| fs::metadata(path).ok()).is_some_and(|file| file.len() > 0) {
        return Ok(true);
    }
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_ours =
            ["ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key"].iter().any(|own| name == *own);
        let is_leftover = Path::new(&name).extension().is_some_and(|extension| extension == "tmp");
        if !is_ours && !is_leftover && entry.metadata().map_err(failed)?.len() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn invalid(path: &Path, problem: impl Into<String>) -> PkiError {
    PkiError::Invalid { path: path.to_owned(), problem: problem.into() }
}
