//! Authorities of client certificates, and which certificates they accept.

use std::{sync::Arc, time::Duration};

use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_parser::{
    oid_registry::asn1_rs::{Oid, oid},
    prelude::X509Certificate,
    time::ASN1Time,
};

use super::AuthenticationError;

/// Extensions that may be critical in a certificate that is its own authority.
const KNOWN_EXTENSIONS: [Oid<'static>; 6] = [
    oid!(2.5.29.14), // subject key identifier
    oid!(2.5.29.15), // key usage
    oid!(2.5.29.17), // subject alternative names
    oid!(2.5.29.19), // basic constraints
    oid!(2.5.29.32), // certificate policies
    oid!(2.5.29.37), // extended key usage
];

/// Certificate authorities for one kind of client.
pub(super) struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    pub(super) fn new(pem: &str) -> Result<Self, AuthenticationError> {
        let certificates = certificates(pem)?;
        let roots = store(&certificates)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        let verifier = verifier.map_err(|error| AuthenticationError::Authority(error.to_string()))?;
        Ok(Self { verifier, certificates })
    }

    /// Verifies the certificate of a client at a time in seconds since the Unix epoch. As in Go, a certificate that is
    /// itself one of the authorities needs no other, whether it may sign certificates or not.
    pub(super) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        parsed: &X509Certificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: i64,
    ) -> Result<(), String> {
        if self.certificates.contains(leaf) {
            return check_own_authority(parsed, now);
        }
        let time = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().unwrap_or_default()));
        let verified = self.verifier.verify_client_cert(leaf, intermediates, time);
        verified.map(drop).map_err(|error| error.to_string())
    }
}

/// Checks the requirements for client certificates other than trust.
fn check_own_authority(certificate: &X509Certificate<'_>, now: i64) -> Result<(), String> {
    let now = ASN1Time::from_timestamp(now).map_err(|error| error.to_string())?;
    if !certificate.validity().is_valid_at(now) {
        return Err("x509: certificate has expired or is not yet valid".to_owned());
    }
    if certificate.extensions().iter().any(|one| one.critical && !KNOWN_EXTENSIONS.contains(&one.oid)) {
        return Err("x509: unhandled critical extension".to_owned());
    }
    let usage = certificate.extended_key_usage().map_err(|error| error.to_string())?;
    match usage.is_none_or(|usage| usage.value.any || usage.value.client_auth) {
        true => Ok(()),
        false => Err("x509: certificate specifies an incompatible key usage".to_owned()),
    }
}

/// Returns the certificates of authorities.
pub(super) fn roots(pem: &str) -> Result<RootCertStore, AuthenticationError> {
    store(&certificates(pem)?)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, AuthenticationError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates.map_err(|error| AuthenticationError::Authority(error.to_string()))?;
    if certificates.is_empty() {
        return Err(AuthenticationError::Authority("it contains no certificate".to_owned()));
    }
    Ok(certificates)
}

fn store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, AuthenticationError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let added = roots.add(certificate.clone());
        added.map_err(|error| AuthenticationError::Authority(error.to_string()))?;
    }
    Ok(roots)
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    use x509_parser::prelude::FromDer as _;

    use super::*;

    /// 2026-01-01.
    const NOW: i64 = 1_767_225_600;

    fn params(is_ca: IsCa) -> CertificateParams {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = is_ca;
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        params
    }

    fn verify(authority: &rcgen::Certificate, leaf: &rcgen::Certificate, now: i64) -> Result<(), String> {
        let (_, parsed) = X509Certificate::from_der(leaf.der()).unwrap();
        Authorities::new(&authority.pem()).unwrap().verify(leaf.der(), &parsed, &[], now)
    }

    #[test]
    fn a_certificate_that_is_its_own_authority_is_accepted() {
        let ca = IsCa::Ca(BasicConstraints::Unconstrained);
        for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa, ca] {
            let key = KeyPair::generate().unwrap();
            let own = params(is_ca).self_signed(&key).unwrap();
            assert_eq!(verify(&own, &own, NOW), Ok(()), "{is_ca:?}");
            let year = 366 * 24 * 3600;
            for other_time in [NOW - year, NOW + year] {
                assert!(verify(&own, &own, other_time).is_err(), "{is_ca:?}");
            }
            let other = params(is_ca).self_signed(&KeyPair::generate().unwrap()).unwrap();
            assert!(verify(&own, &other, NOW).is_err());
        }
        // Also without its issuer.
        let (issuer_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut issuer = params(ca);
        issuer.distinguished_name.push(rcgen::DnType::CommonName, "issuer");
        let issued = params(IsCa::NoCa).signed_by(&key, &Issuer::new(issuer, issuer_key)).unwrap();
        assert_eq!(verify(&issued, &issued, NOW), Ok(()));
    }

    #[test]
    fn a_certificate_that_is_its_own_authority_must_be_one_for_clients() {
        let mut critical = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57683, 99], vec![5, 0]);
        critical.set_criticality(true);
        for (usages, extensions, expected) in [
            (vec![ExtendedKeyUsagePurpose::ClientAuth], vec![], true),
            (vec![ExtendedKeyUsagePurpose::Any], vec![], true),
            (vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth], vec![], true),
            (vec![ExtendedKeyUsagePurpose::ServerAuth], vec![], false),
            (vec![], vec![critical], false),
        ] {
            let mut params = params(IsCa::Ca(BasicConstraints::Unconstrained));
            params.extended_key_usages = usages.clone();
            params.custom_extensions = extensions;
            let own = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            assert_eq!(verify(&own, &own, NOW).is_ok(), expected, "{usages:?}");
        }
    }
}
