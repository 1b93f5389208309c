//! The key of a request: a certificate signing request, or a public key with a proof of possession.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::{bytes, problem};
use crate::field_errors::FieldErrors;
use crate::object::copy;

/// The size of each of the fields in bytes.
const MAX_SIZE: usize = 10 * 1024;

const EC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const P224: &str = "1.3.132.0.33";
const CURVES: [&str; 3] = ["1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35"];

/// Requires one of the two forms.
pub(super) fn validate(object: &Value, errors: &mut ErrorList) {
    let (request, key) = (bytes(object, "/spec/stubPKCS10Request"), bytes(object, "/spec/pkixPublicKey"));
    let proof = bytes(object, "/spec/proofOfPossession");
    match (request.is_empty(), key.is_empty(), proof.is_empty()) {
        (false, true, true) => validate_request(&request, errors),
        (true, false, false) => validate_key(object, &key, &proof, errors),
        _ => {
            let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            problem(&Path::new("spec"), detail, errors);
        }
    }
}

fn validate_request(request: &[u8], errors: &mut ErrorList) {
    let path = Path::new("spec").child("stubPKCS10Request");
    if request.len() > MAX_SIZE {
        return errors.push(FieldError::too_long(&path, MAX_SIZE));
    }
    let parsed = match X509CertificationRequest::from_der(request) {
        Ok(([], parsed)) => parsed,
        _ => return problem(&path, "must be a valid PKCS#10 CSR", errors),
    };
    match kind(&parsed.certification_request_info.subject_pki) {
        Kind::Accepted => {}
        Kind::Curve => {
            let detail = "elliptic public keys must use curve P256, P384, or P521";
            errors.invalid(&path, "curve P-224", detail);
        }
        Kind::Size(bits) => modulus(&path, bits, errors),
        Kind::Unknown => problem(&path, "unknown public key type; supported types are Ed25519, ECDSA, and RSA", errors),
    }
}

fn validate_key(object: &Value, key: &[u8], proof: &[u8], errors: &mut ErrorList) {
    let spec = Path::new("spec");
    let path = spec.child("pkixPublicKey");
    for (path, value) in [(&path, key), (&spec.child("proofOfPossession"), proof)] {
        if value.len() > MAX_SIZE {
            return errors.push(FieldError::too_long(path, MAX_SIZE));
        }
    }
    let parsed = match SubjectPublicKeyInfo::from_der(key) {
        Ok(([], parsed)) => kind(&parsed),
        _ => Kind::Unknown,
    };
    match parsed {
        Kind::Accepted => {}
        Kind::Curve => {
            errors.invalid(&path, "curve P-224", "elliptic public keys must use curve P256 or P384");
        }
        Kind::Size(bits) => modulus(&path, bits, errors),
        Kind::Unknown => {
            errors.invalid(&path, copy(object, "/spec/pkixPublicKey"), "must be a valid PKIX-serialized public key");
        }
    }
}

fn modulus(path: &Path, bits: usize, errors: &mut ErrorList) {
    errors.invalid(path, format!("{bits}-bit modulus"), "RSA keys must have modulus size 3072 or 4096");
}

/// Classification of a public key.
enum Kind {
    Accepted,
    /// An elliptic curve that is not accepted.
    Curve,
    /// An RSA key of another size, in bits.
    Size(usize),
    Unknown,
}

fn kind(key: &SubjectPublicKeyInfo<'_>) -> Kind {
    let algorithm = key.algorithm.algorithm.to_id_string();
    if algorithm == ED25519 {
        return Kind::Accepted;
    }
    if algorithm == EC {
        let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
        return match curve.map(|curve| curve.to_id_string()).as_deref() {
            Some(curve) if CURVES.contains(&curve) => Kind::Accepted,
            Some(P224) => Kind::Curve,
            _ => Kind::Unknown,
        };
    }
    match key.parsed() {
        Ok(PublicKey::RSA(key)) => match key.key_size() {
            3072 | 4096 => Kind::Accepted,
            bits => Kind::Size(bits),
        },
        _ => Kind::Unknown,
    }
}
