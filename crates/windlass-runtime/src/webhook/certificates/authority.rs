//! Issuing and renewal of certificates. Pure: time is an argument.
//!
//! A CA signs serving certificates. Some time before it expires, a second CA is created. Both are in the bundle that
//! clients trust, and the new one signs nothing until every client has had time to learn of it. So every client trusts
//! the serving certificate at any time.

use std::{fmt, time::Duration};

use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use windlass_tls::{CLOCK_SKEW, ca_params, leaf_params};
use x509_parser::{extensions::GeneralName, prelude::X509Certificate};

/// Maximum number of CAs that are kept after a loss: at most two, unless another program wrote them.
const MAX_FORMER: usize = 8;

/// Lifetimes of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lifetimes {
    pub(super) authority_lifetime: Duration,
    pub(super) serving_lifetime: Duration,
    /// Time that a CA is in the bundle before it signs.
    pub(super) overlap: Duration,
}

/// A certificate and its key in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CertificateAndKey {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The certificates that all replicas share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredCertificates {
    /// The newest first.
    pub(super) authorities: Vec<CertificateAndKey>,
    pub(super) serving: CertificateAndKey,
    /// CAs in PEM that clients trusted when the earlier certificates were lost. Their keys are lost, too; replicas may
    /// still use certificates that they signed.
    pub(super) former: String,
}

/// Relevant fields of a certificate.
struct ParsedCertificate {
    subject: Vec<u8>,
    issuer: Vec<u8>,
    not_before: Duration,
    not_after: Duration,
    names: Vec<String>,
}

impl StoredCertificates {
    /// Returns the bundle for clients, in PEM.
    pub(super) fn trusted(&self) -> String {
        self.bundle() + &self.former
    }

    /// Returns whether clients that trust `before` trust some of this.
    pub(super) fn continues(&self, before: Option<&Self>) -> bool {
        before.is_some_and(|before| self.authorities.iter().any(|authority| before.authorities.contains(authority)))
    }

    /// Returns all CAs in PEM, the newest first.
    pub(super) fn bundle(&self) -> String {
        self.authorities.iter().map(|authority| authority.certificate.as_str()).collect()
    }

    /// Returns the keys of all CAs in PEM, in the order of the bundle.
    pub(super) fn authority_keys(&self) -> String {
        self.authorities.iter().map(|authority| authority.key.as_str()).collect()
    }

    /// Restores certificates from [`StoredCertificates::bundle`] and [`StoredCertificates::authority_keys`].
    pub(super) fn from_parts(bundle: &str, authority_keys: &str, serving: CertificateAndKey) -> Self {
        let pairs = blocks(bundle).into_iter().zip(blocks(authority_keys));
        let authorities = pairs.map(|(certificate, key)| CertificateAndKey { certificate, key }).collect();
        Self { authorities, serving, former: String::new() }
    }
}

/// Returns the certificates to use from now on: the same as before, unless something is missing, invalid, has other
/// names, or is in the last third of its lifetime.
pub(super) fn renew(
    kept: Option<&StoredCertificates>,
    names: &[String],
    policy: &Lifetimes,
    now: Duration,
) -> Result<StoredCertificates, rcgen::Error> {
    let mut authorities: Vec<(CertificateAndKey, ParsedCertificate)> = Vec::new();
    for pair in kept.map(|kept| &kept.authorities[..]).unwrap_or_default() {
        // An unreadable or expired certificate counts as lost.
        let usable = facts(&pair.certificate).filter(|facts| facts.not_after > now);
        if let Some(facts) = usable.filter(|_| issuer(pair).is_ok()) {
            authorities.push((pair.clone(), facts));
        }
    }
    if authorities.first().is_none_or(|(_, facts)| facts.is_due(now)) {
        let pair = new_authority(policy, now)?;
        let facts = facts(&pair.certificate).ok_or(rcgen::Error::CouldNotParseCertificate)?;
        authorities.insert(0, (pair, facts));
    }
    // One overlap after the loss, all replicas use certificates of the current CAs.
    let known =
        |(_, facts): &(CertificateAndKey, ParsedCertificate)| now >= facts.not_before + CLOCK_SKEW + policy.overlap;
    let former = kept.filter(|_| !authorities.iter().any(known)).map(|kept| kept.former.clone()).unwrap_or_default();
    let good = kept.map(|kept| &kept.serving).filter(|pair| is_good(pair, names, &authorities, now));
    let serving = match good {
        Some(pair) => pair.clone(),
        None => {
            // The newest CA that clients have had time to learn of; otherwise the one that they have known longest.
            let signer = authorities.iter().find(|authority| known(authority)).or(authorities.last());
            let (signer, facts) = signer.ok_or(rcgen::Error::CouldNotParseCertificate)?;
            new_serving(signer, facts.not_after, names, policy, now)?
        }
    };
    Ok(StoredCertificates { authorities: authorities.into_iter().map(|(pair, _)| pair).collect(), serving, former })
}

/// Returns the CAs of PEM data that have not expired, without duplicates.
pub(super) fn valid(bundle: &str, now: Duration) -> String {
    let mut valid: Vec<String> = Vec::new();
    for block in blocks(bundle) {
        let lasts = facts(&block).is_some_and(|facts| facts.not_after > now);
        if lasts && !valid.contains(&block) && valid.len() < MAX_FORMER {
            valid.push(block);
        }
    }
    valid.concat()
}

/// Returns whether a certificate may replace another at once: clients that trust the one trust the other, or the old
/// one has expired.
pub(super) fn may_replace(shown: &CertificateAndKey, next: &CertificateAndKey, now: Duration) -> bool {
    let (Some(shown), Some(next)) = (facts(&shown.certificate), facts(&next.certificate)) else { return true };
    shown.issuer == next.issuer || shown.not_after <= now
}

fn is_good(
    pair: &CertificateAndKey,
    names: &[String],
    authorities: &[(CertificateAndKey, ParsedCertificate)],
    now: Duration,
) -> bool {
    let Some(facts) = facts(&pair.certificate) else { return false };
    let signed = authorities.iter().any(|(_, authority)| authority.subject == facts.issuer);
    let covers = names.iter().all(|name| facts.names.contains(name));
    let fits = super::CertResolver::new().set_pem(pair.certificate.as_bytes(), pair.key.as_bytes()).is_ok();
    signed && covers && fits && !facts.is_due(now)
}

impl ParsedCertificate {
    /// Returns whether it is in the last third of its lifetime.
    fn is_due(&self, now: Duration) -> bool {
        let lifetime = self.not_after.saturating_sub(self.not_before + CLOCK_SKEW);
        now + lifetime / 3 >= self.not_after
    }
}

fn facts(pem: &str) -> Option<ParsedCertificate> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).ok()?;
    let seconds = |time: i64| Duration::from_secs(time.try_into().unwrap_or(0));
    Some(ParsedCertificate {
        subject: parsed.subject().as_raw().to_vec(),
        issuer: parsed.issuer().as_raw().to_vec(),
        not_before: seconds(parsed.validity().not_before.timestamp()),
        not_after: seconds(parsed.validity().not_after.timestamp()),
        names: names_of(&parsed),
    })
}

fn names_of(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let names = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match *bytes {
            [a, b, c, d] => Some(std::net::Ipv4Addr::new(*a, *b, *c, *d).to_string()),
            bytes => Some(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
        },
        _ => None,
    });
    names.collect()
}

fn issuer(pair: &CertificateAndKey) -> Result<Issuer<'static, KeyPair>, rcgen::Error> {
    let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes())
        .map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    Issuer::from_ca_cert_der(&der, KeyPair::from_pem(&pair.key)?)
}

fn new_authority(policy: &Lifetimes, now: Duration) -> Result<CertificateAndKey, rcgen::Error> {
    // A unique name: clients select CAs by name.
    let name = format!("windlass-webhook-{}", uuid::Uuid::new_v4().simple());
    let params = ca_params(&name, BasicConstraints::Constrained(0), now, now + policy.authority_lifetime)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?;
    Ok(CertificateAndKey { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn new_serving(
    signer: &CertificateAndKey,
    signer_end: Duration,
    names: &[String],
    policy: &Lifetimes,
    now: Duration,
) -> Result<CertificateAndKey, rcgen::Error> {
    let common_name = names.first().map_or("webhook", String::as_str);
    // Longer names are not allowed; clients ignore the common name of a certificate with alternative names.
    let common_name = if common_name.len() <= 64 { common_name } else { "webhook" };
    let mut params = leaf_params(common_name, names, now, signer_end.min(now + policy.serving_lifetime))?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.signed_by(&key, &issuer(signer)?)?;
    Ok(CertificateAndKey { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Returns the blocks of PEM data with their markers, without the text in between.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block = String::new();
    for line in text.lines() {
        if line.starts_with("-----BEGIN ") {
            block.clear();
        }
        block.push_str(line);
        block.push('\n');
        if line.starts_with("-----END ") {
            blocks.push(std::mem::take(&mut block));
        }
    }
    blocks
}

/// Does not show the key.
impl fmt::Debug for CertificateAndKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAndKey").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
