//! Requests for client certificates (PKCS #10).
//!
//! Encoded here rather than by rcgen, whose names have at most one organization: users can be in several groups.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SigningKey as _};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::PkiError;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// A request for a client certificate and its new private key, both in PEM.
#[derive(Clone)]
pub struct ClientCertificateRequest {
    /// The request (PKCS #10).
    pub request: String,
    /// The private key (PKCS #8).
    pub key: String,
}

impl std::fmt::Debug for ClientCertificateRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificateRequest").field("request", &self.request).finish_non_exhaustive()
    }
}

impl ClientCertificateRequest {
    /// Creates a key and a request for the certificate of a user in these groups.
    pub fn new(user: &str, groups: &[String]) -> Result<Self, PkiError> {
        let issue = |source| PkiError::Issue { name: "client", source };
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(issue)?;
        let mut subject: Vec<Vec<u8>> = groups.iter().map(|group| name(ORGANIZATION, group)).collect();
        subject.push(name(COMMON_NAME, user));
        let information = sequence(&[
            // Version 1.
            vec![0x02, 0x01, 0x00],
            sequence(&subject),
            key.subject_public_key_info(),
            // No attributes.
            vec![0xa0, 0x00],
        ]);
        let signature = key.sign(&information).map_err(issue)?;
        let algorithm = sequence(&[tagged(OBJECT_IDENTIFIER, ECDSA_WITH_SHA256)]);
        let signature = tagged(BIT_STRING, &[&[0], &signature[..]].concat());
        let request = sequence(&[information, algorithm, signature]);
        Ok(Self { request: pem("CERTIFICATE REQUEST", &request), key: key.serialize_pem() })
    }
}

/// Returns when a certificate in PEM expires; `None` if it cannot be parsed.
pub fn certificate_expires(pem: &[u8]) -> Option<jiff::Timestamp> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    jiff::Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

fn name(attribute: &[u8], value: &str) -> Vec<u8> {
    let pair = sequence(&[tagged(OBJECT_IDENTIFIER, attribute), tagged(UTF8_STRING, value.as_bytes())]);
    tagged(SET, &pair)
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = vec![tag];
    match content.len() {
        short @ 0..0x80 => encoded.push(short as u8),
        long => {
            let bytes: Vec<u8> = long.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            encoded.push(0x80 | bytes.len() as u8);
            encoded.extend(bytes);
        }
    }
    encoded.extend(content);
    encoded
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut lines = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        lines.push_str(line);
        lines.push('\n');
        rest = more;
    }
    lines + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateSigningRequestDer;
    use x509_parser::certification_request::X509CertificationRequest;

    use super::*;

    #[test]
    fn a_request_names_the_user_and_all_groups_and_is_signed_with_its_key() {
        // Long enough for lengths of one, two and three bytes.
        for groups in [vec![], vec!["dev".to_owned(), "ops".to_owned()], vec!["x".repeat(64); 5]] {
            let made = ClientCertificateRequest::new("alice@example.com", &groups).unwrap();
            let der = CertificateSigningRequestDer::from_pem_slice(made.request.as_bytes()).unwrap();
            let (rest, parsed) = X509CertificationRequest::from_der(&der).unwrap();
            assert!(rest.is_empty());
            parsed.verify_signature().unwrap();
            let subject = &parsed.certification_request_info.subject;
            let names: Vec<&str> = subject.iter_common_name().map(|name| name.as_str().unwrap()).collect();
            assert_eq!(names, ["alice@example.com"]);
            let found: Vec<&str> = subject.iter_organization().map(|name| name.as_str().unwrap()).collect();
            assert_eq!(found, groups);
            assert!(!format!("{made:?}").contains("PRIVATE"));
            assert_eq!(KeyPair::from_pem(&made.key).unwrap().subject_public_key_info(), {
                parsed.certification_request_info.subject_pki.raw
            });
        }
    }

    #[test]
    fn the_expiry_of_a_certificate_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pki = super::super::Pki::load_or_create(folder.path(), &[]).unwrap();
        let expires = certificate_expires(pki.ca().certificate.as_bytes()).unwrap();
        assert_eq!(Some(expires), super::super::authority_expires(folder.path()));
        assert_eq!(certificate_expires(b"nothing"), None);
    }
}
