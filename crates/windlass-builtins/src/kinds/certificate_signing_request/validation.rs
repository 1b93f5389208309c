//! Validation of requests, approvals and issued certificates.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_schema::field::{self, ErrorList, FieldError, quote};
use windlass_schema::names::{is_dns1123_label, is_dns1123_subdomain};

use crate::object::{integer, items, text};
use crate::pem::blocks;

/// The endpoint of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// The object itself.
    Main,
    /// The status subresource: issuance.
    Status,
    /// The approval subresource.
    Approval,
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

/// Validates a request. Errors that `old` already had are tolerated.
pub(super) fn request(object: &Value, old: Option<&Value>) -> ErrorList {
    let spec = field::Path::new("spec");
    let mut errors = ErrorList::new();
    let encoded = text(object, "/spec/request");
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    // The signature is not verified here.
    if blocks(&decoded).first().is_none_or(|kind| kind != "CERTIFICATE REQUEST") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(FieldError::invalid(&spec.child("request"), &encoded.into(), detail));
    }
    errors.extend(usages(object, old));
    let signer = text(object, "/spec/signerName");
    let path = spec.child("signerName");
    if signer == LEGACY_SIGNER && old.is_none_or(|old| text(old, "/spec/signerName") != LEGACY_SIGNER) {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(&path, &signer.into(), detail));
    } else {
        errors.extend(signer_name(&path, signer));
    }
    if let Some(seconds) = integer(object, "/spec/expirationSeconds").filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(&spec.child("expirationSeconds"), &seconds.into(), detail));
    }
    errors.extend(conditions(object, old));
    let certificate = |object| text(object, "/status/certificate").to_owned();
    let tolerated = old
        .is_some_and(|old| certificate(object) == certificate(old) || certificate_problem(&certificate(old)).is_some());
    if !tolerated && let Some(problem) = certificate_problem(&certificate(object)) {
        let path = field::Path::new("status").child("certificate");
        errors.push(FieldError::invalid(&path, &"<certificate data>".into(), problem));
    }
    errors
}

/// Validates an update, including the fields that its endpoint may not change.
pub(super) fn update(object: &Value, old: &Value, path: Path) -> ErrorList {
    let mut errors = request(object, Some(old));
    let at = field::Path::new("status").child("conditions");
    let of = |object: &Value, kind: &str| -> Vec<Value> {
        let found = items(object, "/status/conditions").iter().filter(|condition| text(condition, "/type") == kind);
        found.cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(object, kind).len() < of(old, kind).len() {
            errors.push(FieldError::forbidden(
                &at,
                format!("updates may not remove a condition of type {}", quote(kind)),
            ));
        }
    }
    if path != Path::Approval {
        for kind in ["Approved", "Denied"] {
            let (new, old) = (of(object, kind), of(old, kind));
            let verb = match new.len().cmp(&old.len()) {
                std::cmp::Ordering::Greater => "add",
                std::cmp::Ordering::Equal if new != old => "modify",
                _ => continue,
            };
            errors.push(FieldError::forbidden(
                &at,
                format!("updates may not {verb} a condition of type {}", quote(kind)),
            ));
        }
    }
    let (new, before) = (text(object, "/status/certificate"), text(old, "/status/certificate"));
    if new != before {
        let at = field::Path::new("status").child("certificate");
        if path != Path::Status {
            errors.push(FieldError::forbidden(&at, "updates may not set certificate content"));
        } else if !before.is_empty() {
            errors.push(FieldError::forbidden(&at, "updates may not modify existing certificate content"));
        }
    }
    errors
}

fn usages(object: &Value, old: Option<&Value>) -> ErrorList {
    let path = field::Path::new("spec").child("usages");
    let list = |object| items(object, "/spec/usages").iter().map(|usage| usage.as_str().unwrap_or_default()).collect();
    let usages: Vec<&str> = list(object);
    let before: Vec<&str> = old.map(list).unwrap_or_default();
    let repeats = |usages: &[&str]| usages.iter().collect::<HashSet<_>>().len() < usages.len();
    let mut errors = ErrorList::new();
    if usages.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    if before.iter().all(|usage| USAGES.contains(usage)) {
        for (i, usage) in usages.iter().enumerate().filter(|(_, usage)| !USAGES.contains(usage)) {
            errors.push(FieldError::not_supported(&path.index(i), &(*usage).into(), USAGES));
        }
    }
    if !repeats(&before) {
        for (i, usage) in usages.iter().enumerate().filter(|(i, usage)| usages[..*i].contains(usage)) {
            errors.push(FieldError::duplicate(&path.index(i), &(*usage).into()));
        }
    }
    errors
}

/// Requires the name of a signer: a domain and a path.
pub(in crate::kinds) fn signer_name(path: &field::Path, signer: &str) -> ErrorList {
    let invalid = |value: &str, detail: String| FieldError::invalid(path, &value.into(), detail);
    let mut errors = ErrorList::new();
    let (domain, name) = match signer.split_once('/') {
        _ if signer.is_empty() => return vec![FieldError::required(path, "")],
        Some((domain, name)) if !name.contains('/') => (domain, name),
        _ => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return vec![invalid(signer, detail.to_owned())];
        }
    };
    if domain.len() > 253 {
        errors.push(FieldError::too_long(path, 253));
    }
    let labels = |whole: &str, rule: fn(&str) -> Vec<String>| -> ErrorList {
        let bad = whole.split('.').map(|label| (label, rule(label))).find(|(_, problems)| !problems.is_empty());
        let (label, problems) = bad.unwrap_or_default();
        problems
            .into_iter()
            .map(|problem| invalid(whole, format!("validating label {}: {problem}", quote(label))))
            .collect()
    };
    errors.extend(labels(domain, is_dns1123_label));
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(invalid(domain, detail.to_owned()));
    }
    errors.extend(labels(name, is_dns1123_subdomain));
    if signer.len() > 571 {
        errors.push(FieldError::too_long(path, 571));
    }
    errors
}

fn conditions(object: &Value, old: Option<&Value>) -> ErrorList {
    let path = field::Path::new("status").child("conditions");
    let kinds = |object| items(object, "/status/conditions").iter().map(|condition| text(condition, "/type")).collect();
    let before: Vec<&str> = old.map(kinds).unwrap_or_default();
    let repeated = before.iter().collect::<HashSet<_>>().len() < before.len();
    let both = before.contains(&"Approved") && before.contains(&"Denied");
    let mut seen: Vec<&str> = Vec::new();
    let mut errors = ErrorList::new();
    for (i, condition) in items(object, "/status/conditions").iter().enumerate() {
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        if kind.is_empty() && !before.contains(&"") {
            errors.push(FieldError::required(&path.index(i).child("type"), ""));
        }
        let allowed: &[&str] = match kind {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        if status.is_empty() {
            errors.push(FieldError::required(&path.index(i).child("status"), ""));
        } else if !allowed.contains(&status) {
            errors.push(FieldError::not_supported(&path.index(i).child("status"), &status.into(), allowed));
        }
        let opposite = match kind {
            "Approved" => Some("Denied"),
            "Denied" => Some("Approved"),
            _ => None,
        };
        if !both && opposite.is_some_and(|opposite| seen.contains(&opposite)) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(&path, &kind.into(), detail));
        }
        if !repeated && seen.contains(&kind) {
            errors.push(FieldError::duplicate(&path.index(i).child("type"), &kind.into()));
        }
        seen.push(kind);
    }
    errors
}

/// Returns why an issued certificate is invalid, judging by its PEM blocks.
fn certificate_problem(encoded: &str) -> Option<String> {
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    if decoded.is_empty() {
        return None;
    }
    let found = blocks(&decoded);
    if let Some(other) = found.iter().find(|kind| *kind != "CERTIFICATE") {
        return Some(format!("only CERTIFICATE PEM blocks are allowed, found {}", quote(other)));
    }
    found.is_empty().then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}
