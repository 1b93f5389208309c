//! The certificate that a signer issues.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::{HOUR, bytes, problem};
use crate::field_errors::FieldErrors;
use crate::object::{copy, integer, is_set, text};
use crate::pem;

const MAX_SIZE: usize = 100 * 1024;
/// The seconds between the start or the end of a certificate and the start of its renewal.
const MARGIN: i64 = 600;

/// Validates the certificates and times of an issued request. Stops at the first problem, as kube-apiserver does.
pub(super) fn validate(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status").child("certificateChain");
    let chain = text(object, "/status/certificateChain");
    if chain.len() > MAX_SIZE {
        return errors.push(FieldError::too_long(&path, MAX_SIZE));
    }
    let blocks = pem::decoded(chain.as_bytes());
    let Some((leaf, rest)) = blocks.split_first() else {
        return errors.invalid(&path, chain, "issued certificate chain must contain at least one certificate");
    };
    if leaf.kind != "CERTIFICATE" {
        let detail = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return errors.invalid(&path, chain, detail);
    }
    let Some(certificate) = parse(&leaf.content) else {
        return errors.invalid(&path, chain, "leaf certificate does not parse as valid X.509");
    };
    validate_dns_names(&certificate, &path, errors);
    match requested_key(object) {
        Ok(key) if key == certificate.public_key().raw => {}
        Ok(_) => {
            return errors.invalid(&path, chain, "leaf certificate was not issued to the requested public key");
        }
        Err((field, detail)) => return problem(&Path::new("spec").child(field), detail, errors),
    }
    if !validate_times(object, &certificate, &path, errors) {
        return;
    }
    for block in rest {
        if block.kind != "CERTIFICATE" {
            // The spelling is kube-apiserver's.
            let detail = "issued certificate chain must consist entirely of CERTFICATE PEM blocks";
            return errors.invalid(&path, chain, detail);
        }
        if parse(&block.content).is_none() {
            return errors.invalid(&path, chain, "intermediate certificate does not parse as valid X.509");
        }
    }
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().filter(|(rest, _)| rest.is_empty()).map(|(_, certificate)| certificate)
}

fn validate_dns_names(certificate: &X509Certificate<'_>, path: &Path, errors: &mut ErrorList) {
    let names = certificate.subject_alternative_name().ok().flatten();
    for name in names.iter().flat_map(|names| &names.value.general_names) {
        let GeneralName::DNSName(name) = name else { continue };
        if name.is_empty() {
            errors.invalid(path, *name, "leaf certificate should not contain empty DNSName");
        }
        if name.contains("..") {
            errors.invalid(path, *name, "leaf certificate's DNSName should not contain '..'");
        }
        if name.starts_with('.') || name.ends_with('.') {
            errors.invalid(path, *name, "leaf certificate's DNSName should not start or end with '.'");
        }
    }
}

/// Returns the public key of the request in DER.
fn requested_key(object: &Value) -> Result<Vec<u8>, (&'static str, &'static str)> {
    let request = bytes(object, "/spec/stubPKCS10Request");
    if request.is_empty() {
        return Ok(bytes(object, "/spec/pkixPublicKey"));
    }
    let (_, parsed) = X509CertificationRequest::from_der(&request)
        .map_err(|_| ("stubPKCS10Request", "must be a valid PKCS#10 CSR"))?;
    Ok(parsed.certification_request_info.subject_pki.raw.to_vec())
}

/// Compares the times of the status with those of the certificate; returns whether they are right.
fn validate_times(object: &Value, certificate: &X509Certificate<'_>, chain: &Path, errors: &mut ErrorList) -> bool {
    let path = |field: &str| Path::new("status").child(field);
    let before = errors.len();
    for (field, detail) in [
        ("notBefore", "must be present and consistent with the issued certificate"),
        ("notAfter", "must be present and consistent with the issued certificate"),
        ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
    ] {
        if !is_set(object, &format!("/status/{field}")) {
            errors.required_because(&path(field), detail);
        }
    }
    if errors.len() > before {
        return false;
    }
    let time = |field: &str| {
        let time: Result<Timestamp, _> = text(object, &format!("/status/{field}")).parse();
        time.map_or(i64::MIN, Timestamp::as_second)
    };
    let validity = certificate.validity();
    let (start, end) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let (max, lifetime) = (integer(object, "/spec/maxExpirationSeconds").unwrap_or_default(), end - start);
    let refresh = time("beginRefreshAt");
    let mut invalid = |field: &str, detail: &str| {
        errors.invalid(&path(field), copy(object, &format!("/status/{field}")), detail);
    };
    if time("notBefore") != start {
        invalid("notBefore", "must be set to the NotBefore time encoded in the leaf certificate");
    } else if time("notAfter") != end {
        invalid("notAfter", "must be set to the NotAfter time encoded in the leaf certificate");
    } else if lifetime < HOUR {
        let nanoseconds = lifetime.saturating_mul(1_000_000_000);
        errors.invalid(chain, nanoseconds, "leaf certificate lifetime must be >= 1 hour");
    } else if lifetime > max {
        let detail = format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({max})");
        errors.invalid(chain, lifetime.saturating_mul(1_000_000_000), detail);
    } else if refresh < start.saturating_add(MARGIN) {
        invalid("beginRefreshAt", "must be at least 10 minutes after status.notBefore");
    } else if refresh > end.saturating_sub(MARGIN) {
        invalid("beginRefreshAt", "must be at least 10 minutes before status.notAfter");
    }
    errors.len() == before
}
