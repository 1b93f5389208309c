//! Issuing certificates.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::ServerName;
use windlass_tls::{ca_params, leaf_params};

use crate::CertificateAndKey;

use super::{PkiError, check::Authority, front_proxy::FRONT_PROXY_CLIENT};

/// Names of the API server inside a cluster, and its addresses on any machine.
const STANDING_NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
];

/// Common name of the authority.
pub(super) const AUTHORITY_NAME: &str = "windlass-ca";

/// Common name of the authority of front proxies.
pub(super) const FRONT_PROXY_AUTHORITY_NAME: &str = "windlass-front-proxy-ca";

/// The authority outlives the certificates that it issues.
const AUTHORITY_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
const LEAF_LIFETIME: Duration = Duration::from_hours(365 * 24);

/// A name that the serving certificate covers, as text and as parsed for TLS.
pub(super) struct CoveredName {
    text: String,
    pub(super) name: ServerName<'static>,
}

/// Returns the standing names and the extra ones, without duplicates.
pub(super) fn server_names(extra: &[String]) -> Result<Vec<CoveredName>, PkiError> {
    let mut names: Vec<CoveredName> = Vec::new();
    for text in STANDING_NAMES.iter().map(|name| (*name).to_owned()).chain(extra.iter().cloned()) {
        let Ok(name) = ServerName::try_from(text.clone()) else {
            return Err(PkiError::Name { name: text });
        };
        if !names.iter().any(|known| known.name == name) {
            names.push(CoveredName { text, name });
        }
    }
    Ok(names)
}

/// Creates an authority.
pub(super) fn authority(now: Duration) -> Result<CertificateAndKey, PkiError> {
    authority_of_key(new_key("ca")?, now)
}

/// Creates an authority with the given key.
pub(super) fn authority_of_key(key: KeyPair, now: Duration) -> Result<CertificateAndKey, PkiError> {
    named_authority("ca", AUTHORITY_NAME, key, now)
}

/// Creates an authority of front proxies.
pub(super) fn front_proxy_authority(now: Duration) -> Result<CertificateAndKey, PkiError> {
    named_authority("front-proxy-ca", FRONT_PROXY_AUTHORITY_NAME, new_key("front-proxy-ca")?, now)
}

fn named_authority(
    name: &'static str,
    common_name: &str,
    key: KeyPair,
    now: Duration,
) -> Result<CertificateAndKey, PkiError> {
    let certificate = ca_params(common_name, BasicConstraints::Unconstrained, now, now + AUTHORITY_LIFETIME)
        .and_then(|params| params.self_signed(&key))
        .map_err(|source| PkiError::Issue { name, source })?;
    Ok(CertificateAndKey { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Issues a serving certificate for these names.
pub(super) fn server(
    authority: &Authority,
    names: &[CoveredName],
    now: Duration,
) -> Result<CertificateAndKey, PkiError> {
    let names: Vec<String> = names.iter().map(|name| name.text.clone()).collect();
    let mut params = params("server", "windlass", &names, now, authority.limit(now + LEAF_LIFETIME))?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign("server", params, authority)
}

/// Issues a self-signed serving certificate.
pub(super) fn self_signed(names: &[String], now: Duration) -> Result<CertificateAndKey, PkiError> {
    let name = "self-signed";
    let key = new_key(name)?;
    let mut params = params(name, "windlass", names, now, now + LEAF_LIFETIME)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.self_signed(&key).map_err(|source| PkiError::Issue { name, source })?;
    Ok(CertificateAndKey { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Issues the administrator's client certificate.
pub(super) fn admin(authority: &Authority, now: Duration) -> Result<CertificateAndKey, PkiError> {
    let mut params = params("admin", "admin", &[], now, authority.limit(now + LEAF_LIFETIME))?;
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign("admin", params, authority)
}

/// Issues the certificate with which the server is a front proxy of others.
pub(super) fn front_proxy_client(authority: &Authority, now: Duration) -> Result<CertificateAndKey, PkiError> {
    let name = "front-proxy-client";
    let mut params = params(name, FRONT_PROXY_CLIENT, &[], now, authority.limit(now + LEAF_LIFETIME))?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(name, params, authority)
}

fn new_key(name: &'static str) -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|source| PkiError::Issue { name, source })
}

/// Returns the parameters of a certificate that an authority signs.
fn params(
    name: &'static str,
    common_name: &str,
    alternative_names: &[String],
    now: Duration,
    until: Duration,
) -> Result<CertificateParams, PkiError> {
    leaf_params(common_name, alternative_names, now, until).map_err(|source| PkiError::Issue { name, source })
}

fn sign(name: &'static str, params: CertificateParams, authority: &Authority) -> Result<CertificateAndKey, PkiError> {
    let key = new_key(name)?;
    let certificate = params.signed_by(&key, authority.issuer()).map_err(|source| PkiError::Issue { name, source })?;
    Ok(CertificateAndKey { certificate: certificate.pem(), key: key.serialize_pem() })
}
