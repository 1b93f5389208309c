//! Checks of stored certificates, by the rules that TLS peers apply to them.

use std::{path::Path, sync::Arc, time::Duration};

use rcgen::{Issuer, KeyPair};
use rustls::{
    CertificateError, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _, verify_server_name},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _},
    server::{ParsedCertificate, WebPkiClientVerifier},
    sign::CertifiedKey,
};

use crate::CertificateAndKey;

use super::{
    AuthorityExpiry, PairFiles, PkiError, RENEW_BEFORE, Verdict,
    issue::{AUTHORITY_NAME, CoveredName, FRONT_PROXY_AUTHORITY_NAME},
};

const EXPIRES: &str = "it has expired or is about to";

/// An authority that can issue certificates.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    not_after: Duration,
}

impl Authority {
    pub(super) fn new(files: &PairFiles, pair: &CertificateAndKey) -> Result<Self, PkiError> {
        let certificate = certificate(&files.certificate, &pair.certificate)?;
        let not_after = properties(&files.certificate, &certificate)?.not_after;
        let issuer = Issuer::from_ca_cert_der(&certificate, signing_key(&files.key, &pair.key)?)
            .map_err(|error| invalid(&files.certificate, format!("cannot issue certificates: {error}")))?;
        Ok(Self {
            issuer,
            roots: Arc::new(roots(&pair.certificate)?),
            provider: Arc::new(rustls::crypto::ring::default_provider()),
            not_after,
        })
    }

    pub(super) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// Returns the earlier of `until` and the authority's own expiry: no certificate outlives its issuer.
    pub(super) fn limit(&self, until: Duration) -> Duration {
        until.min(self.not_after)
    }

    /// Checks whether clients that know one of these names will accept this serving certificate at this time.
    pub(super) fn check_server(
        &self,
        files: &PairFiles,
        pair: &CertificateAndKey,
        names: &[CoveredName],
        at: Duration,
    ) -> Result<Verdict, PkiError> {
        let certificate = matching_certificate(files, pair)?;
        let parsed = ParsedCertificate::try_from(&certificate)
            .map_err(|error| invalid(&files.certificate, format!("is not a certificate: {error}")))?;
        if names.iter().any(|name| verify_server_name(&parsed, &name.name).is_err()) {
            // Check the chain anyway: a foreign certificate must not be replaced for lack of a name.
            return self.check_server_chain(files, &certificate, None, at).map(|verdict| match verdict {
                Verdict::Good => Verdict::Due("it does not cover the server's names"),
                due => due,
            });
        }
        self.check_server_chain(files, &certificate, names.first(), at)
    }

    fn check_server_chain(
        &self,
        files: &PairFiles,
        certificate: &CertificateDer<'_>,
        name: Option<&CoveredName>,
        at: Duration,
    ) -> Result<Verdict, PkiError> {
        let verifier = WebPkiServerVerifier::builder_with_provider(self.roots.clone(), self.provider.clone())
            .build()
            .map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))?;
        let result = match name {
            Some(name) => verifier.verify_server_cert(certificate, &[], &name.name, &[], time(at)).map(|_| ()),
            None => ParsedCertificate::try_from(certificate).and_then(|parsed| {
                rustls::client::verify_server_cert_signed_by_trust_anchor(
                    &parsed,
                    &self.roots,
                    &[],
                    time(at),
                    self.provider.signature_verification_algorithms.all,
                )
            }),
        };
        verdict(files, result)
    }

    /// Checks whether the server will accept this client certificate at this time.
    pub(super) fn check_client(
        &self,
        files: &PairFiles,
        pair: &CertificateAndKey,
        at: Duration,
    ) -> Result<Verdict, PkiError> {
        let certificate = matching_certificate(files, pair)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), self.provider.clone())
            .build()
            .map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))?;
        verdict(files, verifier.verify_client_cert(&certificate, &[], time(at)).map(|_| ()))
    }
}

/// Checks whether this is a usable authority. Windlass's own is renewed before it expires; a user's is used until it
/// expires.
pub(super) fn authority(files: &PairFiles, pair: &CertificateAndKey, now: Duration) -> Result<Verdict, PkiError> {
    let certificate = matching_certificate(files, pair)?;
    let properties = properties(&files.certificate, &certificate)?;
    if !properties.is_authority {
        return Err(invalid(&files.certificate, "is not a CA certificate"));
    }
    signing_key(&files.key, &pair.key)?;
    match properties {
        Properties { is_ours: true, not_after, .. } if not_after <= now + RENEW_BEFORE => Ok(Verdict::Due(EXPIRES)),
        Properties { is_ours: false, not_after, .. } if not_after <= now => {
            Err(invalid(&files.certificate, "has expired"))
        }
        _ => Ok(Verdict::Good),
    }
}

/// Returns when an authority expires.
pub(super) fn expiry(files: &PairFiles, pair: &CertificateAndKey) -> Result<AuthorityExpiry, PkiError> {
    let certificate = certificate(&files.certificate, &pair.certificate)?;
    let Properties { not_after, is_ours, .. } = properties(&files.certificate, &certificate)?;
    Ok(AuthorityExpiry { not_after, is_ours })
}

/// Returns whether a certificate names Windlass's own authority as its issuer.
pub(super) fn names_our_authority(pem: &str) -> bool {
    let Ok(certificate) = CertificateDer::from_pem_slice(pem.as_bytes()) else { return false };
    x509_parser::parse_x509_certificate(&certificate).is_ok_and(|(_, parsed)| is_our_name(parsed.issuer()))
}

fn is_our_name(name: &x509_parser::x509::X509Name<'_>) -> bool {
    name.iter_common_name().any(|name| name.as_str().is_ok_and(is_our_authority))
}

/// Parses a key that can sign certificates.
pub(super) fn signing_key(path: &Path, pem: &str) -> Result<KeyPair, PkiError> {
    KeyPair::from_pem(pem).map_err(|error| invalid(path, format!("is not a private key in PKCS #8 PEM: {error}")))
}

/// Returns a root store that trusts only the authority.
pub(super) fn roots(pem: &str) -> Result<RootCertStore, PkiError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(PkiError::Tls)?;
    }
    Ok(roots)
}

/// Parses certificates that have been checked before.
pub(super) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))
}

/// Parses a key that has been checked before.
#[cfg(test)]
pub(super) fn key(pem: &str) -> Result<PrivateKeyDer<'static>, PkiError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))
}

struct Properties {
    not_after: Duration,
    is_authority: bool,
    is_ours: bool,
}

fn properties(path: &Path, certificate: &CertificateDer<'_>) -> Result<Properties, PkiError> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|error| invalid(path, format!("is not a certificate: {error}")))?;
    let not_after = Duration::from_secs(parsed.validity().not_after.timestamp().try_into().unwrap_or(0));
    Ok(Properties { not_after, is_authority: parsed.is_ca(), is_ours: is_our_name(parsed.subject()) })
}

fn is_our_authority(name: &str) -> bool {
    name == AUTHORITY_NAME || name == FRONT_PROXY_AUTHORITY_NAME
}

fn certificate(path: &Path, pem: &str) -> Result<CertificateDer<'static>, PkiError> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| invalid(path, format!("is not a certificate in PEM: {error}")))
}

/// Returns the certificate if the key matches it.
fn matching_certificate(files: &PairFiles, pair: &CertificateAndKey) -> Result<CertificateDer<'static>, PkiError> {
    let certificate = certificate(&files.certificate, &pair.certificate)?;
    if let Err(error) = ParsedCertificate::try_from(&certificate) {
        return Err(invalid(&files.certificate, format!("is not a certificate: {error}")));
    }
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
        .map_err(|error| invalid(&files.key, format!("is not a private key in PEM: {error}")))?;
    let provider = rustls::crypto::ring::default_provider();
    match CertifiedKey::from_der(vec![certificate.clone()], key, &provider) {
        Ok(_) => Ok(certificate),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(invalid(&files.key, format!("does not belong to {}", files.certificate.display())))
        }
        Err(error) => Err(invalid(&files.key, format!("is not a usable private key: {error}"))),
    }
}

fn verdict(files: &PairFiles, result: Result<(), rustls::Error>) -> Result<Verdict, PkiError> {
    match result {
        Ok(()) => Ok(Verdict::Good),
        Err(rustls::Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
            Ok(Verdict::Due(EXPIRES))
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            Err(invalid(&files.certificate, "was not issued by the certificate authority in ca.crt"))
        }
        Err(error) => Err(invalid(&files.certificate, format!("cannot be used: {error}"))),
    }
}

fn time(since_epoch: Duration) -> UnixTime {
    UnixTime::since_unix_epoch(since_epoch)
}

fn invalid(path: &Path, problem: impl Into<String>) -> PkiError {
    PkiError::Invalid { path: path.to_owned(), problem: problem.into() }
}
