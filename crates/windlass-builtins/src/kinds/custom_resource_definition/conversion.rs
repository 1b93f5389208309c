//! Validation of `spec.conversion`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::go_url;
use windlass_schema::names::{is_dns1035_label, is_dns1123_subdomain, is_valid_port_num};

use crate::object::{copy, integer, is_set, items, text};
use crate::pem;

/// Rules that an update may violate because the old object does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// The review versions must include one that the server knows.
    pub(super) known_review_version: bool,
    /// The CA bundle need not contain certificates.
    pub(super) any_ca_bundle: bool,
}

/// Validates `spec.conversion`. Paths are those of kube-apiserver's internal version of a CRD.
pub(super) fn validate(spec: &Value, path: &Path, rules: Rules) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(conversion) = spec.get("conversion").filter(|conversion| conversion.is_object()) else { return errors };
    let strategy = text(conversion, "/strategy");
    match strategy {
        "" => errors.push(FieldError::required(&path.child("strategy"), "")),
        "None" | "Webhook" => {}
        other => errors.push(FieldError::not_supported(&path.child("strategy"), &other.into(), &["None", "Webhook"])),
    }
    let (config_path, versions_path) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let has_config = is_set(conversion, "/webhook/clientConfig");
    let versions = items(conversion, "/webhook/conversionReviewVersions");
    if strategy == "Webhook" {
        if has_config {
            errors.extend(client_config(&copy(conversion, "/webhook/clientConfig"), &config_path, rules));
        } else {
            errors.push(FieldError::required(&config_path, "required when strategy is set to Webhook"));
        }
        errors.extend(review_versions(versions, &versions_path, rules));
        return errors;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if has_config {
        errors.push(FieldError::forbidden(&config_path, detail));
    }
    if !versions.is_empty() {
        errors.push(FieldError::forbidden(&versions_path, detail));
    }
    errors
}

/// Returns whether a list of review versions is empty or includes one that the server knows.
pub(super) fn is_known_or_empty(versions: &[Value]) -> bool {
    versions.is_empty() || versions.iter().any(|version| version == "v1" || version == "v1beta1")
}

fn review_versions(versions: &[Value], path: &Path, rules: Rules) -> ErrorList {
    let mut errors = ErrorList::new();
    if versions.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    for (index, version) in versions.iter().enumerate() {
        let at = path.index(index);
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(&at, version, "duplicate version"));
            continue;
        }
        let messages = is_dns1035_label(version.as_str().unwrap_or_default());
        errors.extend(messages.into_iter().map(|message| FieldError::invalid(&at, version, message)));
    }
    if rules.known_review_version && !is_known_or_empty(versions) {
        errors.push(FieldError::invalid(path, &versions.into(), "must include at least one of v1, v1beta1"));
    }
    errors
}

fn client_config(config: &Value, path: &Path, rules: Rules) -> ErrorList {
    let mut errors = match (config["url"].as_str(), config["service"].is_object()) {
        (None, false) | (Some(_), true) => {
            vec![FieldError::required(path, "exactly one of url or service is required")]
        }
        (Some(url), false) => webhook_url(url, &path.child("url")),
        (None, true) => webhook_service(&config["service"], &path.child("service")),
    };
    let bundle = text(config, "/caBundle");
    if !rules.any_ca_bundle
        && !bundle.is_empty()
        && let Some(message) = ca_bundle_error(&STANDARD.decode(bundle).unwrap_or_default())
    {
        let detail = format!("unable to load root certificates: {message}");
        errors.push(FieldError::invalid(&path.child("caBundle"), &bundle.into(), detail));
    }
    errors
}

pub(crate) fn webhook_url(url: &str, path: &Path) -> ErrorList {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match go_url::parse(url) {
        Ok(url) => url,
        Err(error) => return vec![FieldError::required(path, format!("url must be a valid URL: {error}{FORM}"))],
    };
    let mut errors = ErrorList::new();
    let mut invalid = |value: String, detail: String| errors.push(FieldError::invalid(path, &value.into(), detail));
    if url.scheme != "https" {
        invalid(url.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        invalid(url.host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        invalid(user, "user information is not permitted in the URL".to_owned());
    }
    if !url.fragment.is_empty() {
        invalid(url.fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !url.query.is_empty() {
        invalid(url.query, "query parameters are not permitted in the URL".to_owned());
    }
    errors
}

pub(crate) fn webhook_service(service: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    // kube-apiserver swaps the two arguments, so each is reported missing under the other's name.
    if text(service, "/namespace").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    if text(service, "/name").is_empty() {
        errors.push(FieldError::required(&path.child("namespace"), ""));
    }
    let port = integer(service, "/port").unwrap_or(443);
    let messages = is_valid_port_num(port);
    if !messages.is_empty() {
        let detail = format!("port is not valid: {}", messages.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), &port.into(), detail));
    }
    let (at, whole) = (path.child("path"), text(service, "/path"));
    let mut invalid = |detail: String| errors.push(FieldError::invalid(&at, &whole.into(), detail));
    match whole {
        "" | "/" => return errors,
        "//" => {
            invalid("segment[0] may not be empty".to_owned());
            return errors;
        }
        _ => {}
    }
    if !whole.starts_with('/') {
        invalid("must start with a '/'".to_owned());
    }
    // The first byte is dropped even if it is not a slash.
    let rest = whole.get(1..).unwrap_or(whole);
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            invalid(format!("segment[{index}] may not be empty"));
            continue;
        }
        for message in is_dns1123_subdomain(step) {
            invalid(format!("segment[{index}]: {message}"));
        }
    }
    errors
}

/// Returns whether bytes contain at least one PEM certificate.
pub(super) fn is_ca_bundle(bytes: &[u8]) -> bool {
    ca_bundle_error(bytes).is_none()
}

fn ca_bundle_error(bytes: &[u8]) -> Option<&'static str> {
    let blocks = pem::decoded(bytes);
    if blocks.iter().any(|block| block.kind == "CERTIFICATE" && looks_like_certificate(&block.content)) {
        return None;
    }
    match blocks.iter().any(|block| block.kind == "CERTIFICATE") {
        true => Some("failed to parse certificate: x509: malformed certificate"),
        false if blocks.is_empty() => Some("unable to parse bytes as PEM block"),
        false => Some("no valid certificate authority data seen"),
    }
}

/// Returns whether DER bytes are a sequence of a sequence (the signed part), a sequence (the algorithm) and a bit
/// string (the signature), and nothing else.
fn looks_like_certificate(der: &[u8]) -> bool {
    let inner = match element(der) {
        Some((0x30, inner, [])) => inner,
        _ => return false,
    };
    let Some((0x30, _, rest)) = element(inner) else { return false };
    let Some((0x30, _, rest)) = element(rest) else { return false };
    matches!(element(rest), Some((0x03, _, [])))
}

/// Returns the first element of DER bytes: its tag, its content, and the remaining bytes.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if digits.is_empty() || digits.len() > 4 {
            return None;
        }
        length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}
