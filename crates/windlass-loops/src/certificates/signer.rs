//! Issues certificates for requests (PKCS #10).
//!
//! Subject and public key are copied byte by byte, because subjects may have more than our own certificates, such as
//! several organizations. Of the requested extensions, only the subject alternative names are used.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{KeyPair, SigningKey as _};
use rustls::pki_types::pem::PemObject as _;
use x509_parser::{
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    prelude::{FromDer as _, X509Certificate},
};

use super::{CertificateAndKey, der};

/// Certificates are backdated, because clocks differ. The end of a certificate that is not short-lived moves by the
/// same amount.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
const SHORT: Duration = Duration::from_hours(8);

/// Reasons why a certificate could not be issued.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignError {
    /// The authority's own certificate or key is unusable.
    #[error("the authority cannot sign: {0}")]
    Authority(String),
    /// The string is not a certificate request.
    #[error("unable to parse certificate request: {0}")]
    Parse(String),
    /// The request is not signed with its own key.
    #[error("unable to verify certificate request signature: {0}")]
    Signature(String),
    /// Unknown usages.
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    /// The authority has expired.
    #[error("the signer has expired")]
    Expired,
    /// Signing failed.
    #[error("failed to sign certificate: {0}")]
    Sign(String),
}

/// The parts of a request that matter to signers.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
    pub(crate) dns_names: Vec<String>,
    pub(crate) email_addresses: Vec<String>,
    pub(crate) ip_addresses: Vec<Vec<u8>>,
    pub(crate) uris: Vec<String>,
    /// The encoded subject and public key.
    pub(crate) subject: Vec<u8>,
    pub(crate) public_key: Vec<u8>,
}

impl Request {
    /// Parses a PEM request and verifies its signature.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, SignError> {
        let parse = |error: String| SignError::Parse(error);
        let der = rustls::pki_types::CertificateSigningRequestDer::from_pem_slice(pem)
            .map_err(|_| parse("PEM block type must be CERTIFICATE REQUEST".to_owned()))?;
        let (_, request) = X509CertificationRequest::from_der(&der).map_err(|error| parse(error.to_string()))?;
        request.verify_signature().map_err(|error| SignError::Signature(error.to_string()))?;
        let info = &request.certification_request_info;
        let texts = |attributes: &mut dyn Iterator<Item = &x509_parser::x509::AttributeTypeAndValue<'_>>| {
            attributes.filter_map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect::<Vec<_>>()
        };
        let mut parsed = Self {
            common_name: texts(&mut info.subject.iter_common_name()).pop().unwrap_or_default(),
            organizations: texts(&mut info.subject.iter_organization()),
            subject: info.subject.as_raw().to_vec(),
            public_key: info.subject_pki.raw.to_vec(),
            ..Self::default()
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
            for name in &names.general_names {
                match name {
                    GeneralName::DNSName(name) => parsed.dns_names.push((*name).to_owned()),
                    GeneralName::RFC822Name(name) => parsed.email_addresses.push((*name).to_owned()),
                    GeneralName::URI(name) => parsed.uris.push((*name).to_owned()),
                    GeneralName::IPAddress(address) => parsed.ip_addresses.push(address.to_vec()),
                    _ => {}
                }
            }
        }
        Ok(parsed)
    }
}

/// A certificate authority that issues certificates for requests.
pub(crate) struct Signer {
    key: KeyPair,
    /// The subject and the key identifier of the authority's certificate.
    name: Vec<u8>,
    key_identifier: Option<Vec<u8>>,
    not_after: Timestamp,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Signer {
    /// Creates a signer from an authority's certificate and key.
    pub(crate) fn new(authority: &CertificateAndKey) -> Result<Self, SignError> {
        let invalid = |error: String| SignError::Authority(error);
        let der = rustls::pki_types::CertificateDer::from_pem_slice(authority.certificate.as_bytes())
            .map_err(|error| invalid(error.to_string()))?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| invalid(error.to_string()))?;
        let key_identifier = certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
            _ => None,
        });
        let not_after = Timestamp::from_second(certificate.validity().not_after.timestamp());
        Ok(Self {
            key: KeyPair::from_pem(&authority.key).map_err(|error| invalid(error.to_string()))?,
            name: certificate.subject().as_raw().to_vec(),
            key_identifier,
            not_after: not_after.map_err(|error| invalid(error.to_string()))?,
        })
    }

    /// Issues a certificate in PEM for a request, with this lifetime and these usages.
    pub(crate) fn sign(
        &self,
        request: &Request,
        usages: &[String],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<String, SignError> {
        let extensions = self.extensions(request, usages)?;
        let before = now - BACKDATE;
        let lifetime = if lifetime < SHORT { lifetime } else { lifetime - BACKDATE };
        let after = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX).min(self.not_after);
        if now >= self.not_after {
            return Err(SignError::Expired);
        }
        let algorithm = self.algorithm()?;
        let validity = der::sequence(&[&der::time(before), &der::time(after)]);
        let to_be_signed = der::sequence(&[
            // Version 3.
            &[0xa0, 0x03, 0x02, 0x01, 0x02][..],
            &der::integer(&serial_number()?),
            &algorithm,
            &self.name,
            &validity,
            &request.subject,
            &request.public_key,
            &der::tagged(0xa3, &extensions),
        ]);
        let signature = self.key.sign(&to_be_signed).map_err(|error| SignError::Sign(error.to_string()))?;
        let certificate = der::sequence(&[&to_be_signed, &algorithm, &der::bit_string(&signature, 0)]);
        Ok(der::pem("CERTIFICATE", &certificate))
    }

    fn extensions(&self, request: &Request, usages: &[String]) -> Result<Vec<u8>, SignError> {
        let (key_usage, extended) = usages_of(usages)?;
        let mut extensions = Vec::new();
        if key_usage != 0 {
            extensions.push(der::extension(&[0x55, 0x1d, 0x0f], true, &der::named_bits(key_usage)));
        }
        if !extended.is_empty() {
            let purposes: Vec<Vec<u8>> = extended.iter().map(|oid| der::tagged(0x06, oid)).collect();
            extensions.push(der::extension(&[0x55, 0x1d, 0x25], false, &der::sequence(&purposes)));
        }
        // Not a CA.
        extensions.push(der::extension(&[0x55, 0x1d, 0x13], true, &der::sequence::<&[u8]>(&[])));
        if let Some(identifier) = &self.key_identifier {
            let value = der::sequence(&[&der::tagged(0x80, identifier)]);
            extensions.push(der::extension(&[0x55, 0x1d, 0x23], false, &value));
        }
        let names = alternative_names(request);
        if !names.is_empty() {
            // Without a subject, the alternative names are critical.
            let nameless = request.subject == [0x30, 0x00];
            extensions.push(der::extension(&[0x55, 0x1d, 0x11], nameless, &der::sequence(&names)));
        }
        Ok(der::sequence(&extensions))
    }

    /// The signature algorithm of the key, encoded.
    fn algorithm(&self) -> Result<Vec<u8>, SignError> {
        let known: [(&rcgen::SignatureAlgorithm, &[u8]); 4] = [
            (&rcgen::PKCS_ECDSA_P256_SHA256, &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]),
            (&rcgen::PKCS_ECDSA_P384_SHA384, &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3]),
            (&rcgen::PKCS_ED25519, &[0x06, 3, 0x2b, 0x65, 0x70]),
            (&rcgen::PKCS_RSA_SHA256, &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 0x0b, 0x05, 0x00]),
        ];
        let of_key = known.iter().find(|(algorithm, _)| *algorithm == self.key.algorithm());
        let (_, name) = of_key.ok_or_else(|| SignError::Authority("unsupported key type".to_owned()))?;
        Ok(der::sequence(&[name]))
    }
}

/// A random serial number.
fn serial_number() -> Result<[u8; 16], SignError> {
    let mut bytes = [0; 16];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| SignError::Sign("the random number generator failed".to_owned()))?;
    Ok(bytes)
}

fn alternative_names(request: &Request) -> Vec<Vec<u8>> {
    let texts = |tag: u8, names: &[String]| -> Vec<Vec<u8>> {
        names.iter().map(|name| der::tagged(tag, name.as_bytes())).collect()
    };
    let mut names = texts(0x82, &request.dns_names);
    names.extend(texts(0x81, &request.email_addresses));
    names.extend(request.ip_addresses.iter().map(|address| der::tagged(0x87, address)));
    names.extend(texts(0x86, &request.uris));
    names
}

/// Bits of the key usages, the first being the highest.
const KEY_USAGES: [(&str, u16); 10] = [
    ("signing", 0x8000),
    ("digital signature", 0x8000),
    ("content commitment", 0x4000),
    ("key encipherment", 0x2000),
    ("data encipherment", 0x1000),
    ("key agreement", 0x0800),
    ("cert sign", 0x0400),
    ("crl sign", 0x0200),
    ("encipher only", 0x0100),
    ("decipher only", 0x0080),
];

/// Object identifiers of the extended usages, in the order used in certificates.
const EXTENDED_USAGES: [(&str, &[u8]); 13] = [
    ("any", &[0x55, 0x1d, 0x25, 0x00]),
    ("server auth", &[0x2b, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[0x2b, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[0x2b, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[0x2b, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[0x2b, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[0x2b, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[0x2b, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[0x2b, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 0x0a, 3, 3]),
    ("netscape sgc", &[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x42, 4, 1]),
];

fn usages_of(usages: &[String]) -> Result<(u16, Vec<&'static [u8]>), SignError> {
    let bits = |usage: &String| KEY_USAGES.iter().find(|(name, _)| name == usage).map(|(_, bit)| *bit);
    let is_extended = |usage: &String| EXTENDED_USAGES.iter().any(|(name, _)| name == usage);
    let unknown: Vec<String> =
        usages.iter().filter(|usage| bits(usage).is_none() && !is_extended(usage)).cloned().collect();
    if !unknown.is_empty() {
        return Err(SignError::Usages(unknown));
    }
    let mut extended: Vec<&[u8]> = Vec::new();
    for (name, oid) in EXTENDED_USAGES {
        if usages.iter().any(|usage| usage == name) && !extended.contains(&oid) {
            extended.push(oid);
        }
    }
    Ok((usages.iter().filter_map(bits).fold(0, |all, bit| all | bit), extended))
}

#[cfg(test)]
mod tests;
