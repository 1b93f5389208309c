//! PodCertificateRequests: kubelets request certificates for pods, and signers issue them.
//!
//! Signatures are not verified, as with CertificateSigningRequests.

mod certificate;
mod key;
mod status;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::names::{is_dns1123_subdomain, is_qualified_name};

use super::certificate_signing_request::signer_name;
use super::internal_types::{Field, OPTIONAL, TEXT, show};
use crate::columns::{Column, NAME, Printer, column, labels, name, wide};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::{copy, entries, integer, items, set_default, text};
use crate::strategy::Strategy;

/// Strategy of PodCertificateRequests.
#[derive(Debug, Clone, Copy)]
pub struct PodCertificateRequest;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

const MAX_UID: usize = 128;
const MAX_ANNOTATIONS: usize = 256 * 1024;
const HOUR: i64 = 3600;

const SPEC: &[Field] = &[
    ("SignerName", "signerName", TEXT),
    ("PodName", "podName", TEXT),
    ("PodUID", "podUID", TEXT),
    ("ServiceAccountName", "serviceAccountName", TEXT),
    ("ServiceAccountUID", "serviceAccountUID", TEXT),
    ("NodeName", "nodeName", TEXT),
    ("NodeUID", "nodeUID", TEXT),
    ("MaxExpirationSeconds", "maxExpirationSeconds", OPTIONAL),
    ("PKIXPublicKey", "pkixPublicKey", OPTIONAL),
    ("ProofOfPossession", "proofOfPossession", OPTIONAL),
    ("StubPKCS10Request", "stubPKCS10Request", OPTIONAL),
    ("UnverifiedUserAnnotations", "unverifiedUserAnnotations", OPTIONAL),
];

impl Strategy for PodCertificateRequest {
    fn default(&self, object: &mut Value) {
        set_default(object, "/spec/maxExpirationSeconds", 24 * HOUR);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_names(object, &mut errors);
        validate_expiration(object, &mut errors);
        key::validate(object, &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if !same(&copy(object, "/spec"), &copy(old, "/spec")) {
            errors.invalid_shown(&Path::new("spec"), show(&object["spec"], SPEC), "field is immutable");
        }
        errors
    }

    fn validate_subresource_update(&self, _subresource: &str, object: &Value, old: &Value) -> ErrorList {
        status::validate(object, old)
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        let field = |pointer| text(object, pointer).to_owned();
        vec![
            ("spec.signerName", field("/spec/signerName")),
            ("spec.podName", field("/spec/podName")),
            ("spec.nodeName", field("/spec/nodeName")),
        ]
    }
}

/// Requires the names and UIDs of the pod, its service account and its node.
fn validate_names(object: &Value, errors: &mut ErrorList) {
    let spec = Path::new("spec");
    errors.extend(signer_name(&spec.child("signerName"), text(object, "/spec/signerName")));
    let path = spec.child("unverifiedUserAnnotations");
    let mut size = 0;
    for (key, value) in entries(object, "/spec/unverifiedUserAnnotations") {
        size += key.len() + value.as_str().map_or(0, str::len);
        let key = key.to_lowercase();
        match is_qualified_name(&key) {
            _ if key.is_empty() => errors.required(&path),
            problems if !problems.is_empty() => errors.invalid_each(&path, key, problems),
            _ if !key.contains('/') => {
                errors.invalid(&path, key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
            }
            _ => {}
        }
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(&path, MAX_ANNOTATIONS));
    }
    for (name, uid) in [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")] {
        let value = text(object, &format!("/spec/{name}"));
        errors.invalid_each(&spec.child(name), value, is_dns1123_subdomain(value));
        match text(object, &format!("/spec/{uid}")) {
            "" => errors.invalid(&spec.child(uid), "", "must not be empty"),
            value if value.len() > MAX_UID => errors.push(FieldError::too_long(&spec.child(uid), MAX_UID)),
            _ => {}
        }
    }
}

/// Requires a lifetime that the signer may grant.
fn validate_expiration(object: &Value, errors: &mut ErrorList) {
    let seconds = integer(object, "/spec/maxExpirationSeconds").unwrap_or_default();
    let domain = text(object, "/spec/signerName").split('/').next().unwrap_or_default();
    let is_kubernetes = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    let max = if is_kubernetes { 24 * HOUR } else { 91 * 24 * HOUR };
    if !(HOUR..=max).contains(&seconds) {
        let path = Path::new("spec").child("maxExpirationSeconds");
        errors.invalid(&path, seconds, format!("must be in the range [{HOUR}, {max}]"));
    }
}

/// Returns the bytes of a field.
fn bytes(object: &Value, pointer: &str) -> Vec<u8> {
    STANDARD.decode(text(object, pointer)).unwrap_or_default()
}

/// Reports a problem without the value that has it.
fn problem(path: &Path, detail: &str, errors: &mut ErrorList) {
    let (field, detail) = (path.to_string(), detail.to_owned());
    errors.push(FieldError { kind: ErrorKind::Invalid, field, value: None, detail });
}

fn cells(object: &Value, _now: Timestamp) -> Vec<Value> {
    let spec = |field: &str| Value::from(text(object, &format!("/spec/{field}")));
    let kinds = items(object, "/status/conditions").iter().map(|condition| text(condition, "/type"));
    let state = kinds.filter(|kind| status::OUTCOMES.contains(kind)).next_back().unwrap_or("Pending");
    vec![
        name(object),
        spec("podName"),
        spec("serviceAccountName"),
        spec("nodeName"),
        spec("signerName"),
        state.into(),
        labels(object, "/spec/unverifiedUserAnnotations").into(),
    ]
}

const COLUMNS: &[Column] = &[
    NAME,
    column("PodName", "string", "podName is the name of the pod into which the certificate will be mounted."),
    column(
        "ServiceAccountName",
        "string",
        "serviceAccountName is the name of the service account the pod is running as.",
    ),
    column("NodeName", "string", "nodeName is the name of the node the pod is assigned to."),
    column(
        "SignerName",
        "string",
        "signerName indicates the requested signer.\n\nAll signer names beginning with `kubernetes.io` are reserved for use by the Kubernetes project.  There is currently one well-known signer documented by the Kubernetes project, `kubernetes.io/kube-apiserver-client-pod`, which will issue client certificates understood by kube-apiserver.  It is currently unimplemented.",
    ),
    column("State", "string", "Is the request Pending, Issued, Denied, or Failed?"),
    // kube-apiserver always lists the column and fills it in with `-o wide` only.
    wide(
        "UnverifiedUserAnnotations",
        "string",
        "unverifiedUserAnnotations allow pod authors to pass additional information to the signer implementation.  Kubernetes does not restrict or validate this metadata in any way.\n\nEntries are subject to the same validation as object metadata annotations, with the addition that all keys must be domain-prefixed. No restrictions are placed on values, except an overall size limitation on the entire field.\n\nSigners should document the keys and values they support.  Signers should deny requests that contain keys they do not recognize.",
    ),
];

#[cfg(test)]
mod tests;
