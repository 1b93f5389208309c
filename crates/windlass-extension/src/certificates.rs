//! The serving certificate: self-signed by an authority of the server's own, or from files.

use std::{path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

/// Time for which an issued certificate is valid. A server issues a new one at every start.
const LIFETIME: Duration = Duration::from_hours(365 * 24);

/// A serving certificate with its key, and the certificate that clients trust; all in PEM.
#[derive(Clone)]
pub struct ServingCertificate {
    /// The certificate, followed by those of its issuers.
    pub certificate: String,
    /// The key.
    pub key: String,
    /// The certificates by which clients verify the server.
    pub authority: String,
}

/// Reasons why there is no serving certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A certificate could not be issued.
    #[error("failed to issue the serving certificate")]
    Issue(#[from] rcgen::Error),
    /// A file could not be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("the serving certificate cannot be used: {0}")]
    Invalid(String),
}

impl ServingCertificate {
    /// Issues a certificate for these DNS names and IP addresses.
    ///
    /// # Errors
    /// Returns an error if a name is not valid.
    pub fn issue(names: &[String]) -> Result<Self, CertificateError> {
        let now = Duration::try_from(windlass_clock::now().as_duration()).unwrap_or_default();
        let until = now + LIFETIME;
        let ca = windlass_tls::ca_params("windlass-extension", BasicConstraints::Constrained(0), now, until)?;
        let ca_key = KeyPair::generate()?;
        let authority = ca.self_signed(&ca_key)?;
        let issuer = Issuer::new(ca, ca_key);
        let name = names.first().map_or("windlass-extension", String::as_str);
        let mut params = windlass_tls::leaf_params(name, names, now, until)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem(), authority: authority.pem() })
    }

    /// Reads `tls.crt`, `tls.key` and `ca.crt` of a directory, as cert-manager's Secrets have them when mounted.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn read(directory: &Path) -> Result<Self, CertificateError> {
        let read = |name: &str| {
            let path = directory.join(name);
            std::fs::read_to_string(&path)
                .map_err(|source| CertificateError::Read { path: path.display().to_string(), source })
        };
        Ok(Self { certificate: read("tls.crt")?, key: read("tls.key")?, authority: read("ca.crt")? })
    }

    /// Returns the authority as the `caBundle` of an APIService.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.authority)
    }

    /// Returns the certificates and the key for rustls.
    pub(crate) fn parse(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CertificateError> {
        let invalid = |error: rustls::pki_types::pem::Error| CertificateError::Invalid(error.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(invalid)?;
        Ok((chain.map_err(invalid)?, key))
    }
}
