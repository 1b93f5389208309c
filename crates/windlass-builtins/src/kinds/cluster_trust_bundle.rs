//! ClusterTrustBundles: trust anchors of a signer, or of the whole cluster.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::name_is_dns_subdomain;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::certificate_signing_request::signer_name;
use crate::columns::{Column, NAME, Printer, column, name, text_or_none};
use crate::field_errors::FieldErrors;
use crate::object::{copy, text};
use crate::pem::{self, Block};
use crate::strategy::Strategy;
use crate::validate::immutable;

/// Strategy of ClusterTrustBundles.
#[derive(Debug, Clone, Copy)]
pub struct ClusterTrustBundle;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

/// The size of a bundle in bytes.
const MAX_SIZE: usize = 1024 * 1024;
/// Messages do not repeat the bundle.
const OMITTED: &str = "<value omitted>";

impl Strategy for ClusterTrustBundle {
    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = validate_names(object);
        validate_bundle(text(object, "/spec/trustBundle"), &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_names(object);
        let bundle = text(object, "/spec/trustBundle");
        if bundle != text(old, "/spec/trustBundle") {
            validate_bundle(bundle, &mut errors);
        }
        let signer = |object| Value::from(text(object, "/spec/signerName"));
        errors.extend(immutable(&Path::new("spec").child("signerName"), &signer(object), &signer(old)));
        errors
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", text(object, "/spec/signerName").to_owned())]
    }
}

/// Requires a name that begins with that of the signer, if there is one.
fn validate_names(object: &Value) -> ErrorList {
    let (name, signer) = (text(object, "/metadata/name"), text(object, "/spec/signerName"));
    let prefix = format!("{}:", signer.replace('/', ":"));
    let problems = match name.strip_prefix(&prefix) {
        _ if name.is_empty() => Vec::new(),
        _ if signer.is_empty() && name.contains(':') => {
            vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()]
        }
        _ if signer.is_empty() => name_is_dns_subdomain(name, false),
        Some(rest) => name_is_dns_subdomain(rest, false),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")],
    };
    let mut errors = ErrorList::new();
    errors.invalid_each(&Path::new("metadata").child("name"), copy(object, "/metadata/name"), problems);
    if !signer.is_empty() {
        errors.extend(signer_name(&Path::new("spec").child("signerName"), signer));
    }
    errors
}

/// Requires at least one certificate of an authority, and none twice.
fn validate_bundle(bundle: &str, errors: &mut ErrorList) {
    let path = Path::new("spec").child("trustBundle");
    if bundle.len() > MAX_SIZE {
        return errors.push(FieldError::too_long(&path, MAX_SIZE));
    }
    let blocks = pem::decoded(bundle.as_bytes());
    let problems: Vec<String> = blocks
        .iter()
        .enumerate()
        .filter_map(|(at, block)| block_problem(block).map(|problem| format!("entry {at} {problem}")))
        .collect();
    if blocks.is_empty() {
        errors.invalid(&path, OMITTED, "at least one trust anchor must be provided");
    }
    let is_bundle = problems.is_empty();
    errors.invalid_each(&path, OMITTED, problems);
    if !is_bundle {
        return;
    }
    for (at, block) in blocks.iter().enumerate() {
        let same = |other: &&(usize, &Block)| other.1.content == block.content;
        let indices: Vec<_> = blocks.iter().enumerate().filter(|other| same(&other)).map(|(at, _)| at).collect();
        if indices.len() > 1 && indices.first() == Some(&at) {
            let indices: Vec<_> = indices.iter().map(ToString::to_string).collect();
            errors.invalid(&path, OMITTED, format!("duplicate trust anchor (indices [{}])", indices.join(" ")));
        }
    }
}

/// Returns why a block is not the certificate of an authority.
fn block_problem(block: &Block) -> Option<String> {
    if block.kind != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.kind));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    match X509Certificate::from_der(&block.content) {
        Ok(([], certificate)) => (!certificate.is_ca()).then(|| "does not have the CA bit set".to_owned()),
        _ => Some("does not parse as X.509".to_owned()),
    }
}

fn cells(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![name(object), text_or_none(object, "/spec/signerName")]
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "SignerName",
        "string",
        "signerName indicates the associated signer, if any.\n\nIn order to create or update a ClusterTrustBundle that sets signerName, you must have the following cluster-scoped permission: group=certificates.k8s.io resource=signers resourceName=<the signer name> verb=attest.\n\nIf signerName is not empty, then the ClusterTrustBundle object must be named with the signer name as a prefix (translating slashes to colons). For example, for the signer name `example.com/foo`, valid ClusterTrustBundle object names include `example.com:foo:abc` and `example.com:foo:v1`.\n\nIf signerName is empty, then the ClusterTrustBundle object's name must not have such a prefix.\n\nList/watch requests for ClusterTrustBundles can filter on this field using a `spec.signerName=NAME` field selector.",
    ),
];

#[cfg(test)]
mod tests;
