//! Certificate signing requests and the certificates issued for them.

mod der;
pub(crate) mod requests;
pub(crate) mod rules;
mod signer;

pub(crate) use self::signer::{Request, SignError, Signer};

/// A certificate and its private key, both in PEM.
#[derive(Clone)]
pub struct CertificateAndKey {
    /// The certificate.
    pub certificate: String,
    /// The private key, in PKCS #8.
    pub key: String,
}

impl std::fmt::Debug for CertificateAndKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateAndKey").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}
