//! Checks that several kinds share, each giving the field errors of the real server.

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::{go_format, names};

/// A check of a text: what is wrong with it, in the words of the real server.
pub type TextCheck = fn(&str) -> Vec<String>;

/// One `Invalid value` for every message of a name check.
pub fn each(path: &Path, value: &str, messages: Vec<String>) -> ErrorList {
    messages.into_iter().map(|message| FieldError::invalid(path, &value.into(), message)).collect()
}

/// A DNS label (RFC 1123).
pub fn dns_label(path: &Path, value: &str) -> ErrorList {
    each(path, value, names::is_dns1123_label(value))
}

/// A DNS subdomain (RFC 1123).
pub fn dns_subdomain(path: &Path, value: &str) -> ErrorList {
    each(path, value, names::is_dns1123_subdomain(value))
}

/// A qualified name: `name` or `prefix/name`.
pub fn qualified_name(path: &Path, value: &str) -> ErrorList {
    each(path, value, names::is_qualified_name(value))
}

/// A port number.
pub fn port_number(path: &Path, port: i64) -> ErrorList {
    names::is_valid_port_num(port).into_iter().map(|message| FieldError::invalid(path, &port.into(), message)).collect()
}

/// A port number or the name of a port. A value that is neither (absent) counts as port 0.
pub fn port_number_or_name(path: &Path, port: &Value) -> ErrorList {
    match port {
        Value::String(name) => each(path, name, names::is_valid_port_name(name)),
        other => port_number(path, other.as_i64().unwrap_or_default()),
    }
}

/// The protocol of a port.
pub fn protocol(path: &Path, protocol: &str) -> Option<FieldError> {
    const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
    match protocol {
        "" => Some(FieldError::required(path, "")),
        known if PROTOCOLS.contains(&known) => None,
        other => Some(FieldError::not_supported(path, &other.into(), PROTOCOLS)),
    }
}

/// Labels: every error stands at `path` itself.
pub fn labels<'a>(path: &Path, labels: impl IntoIterator<Item = (&'a str, &'a Value)>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels {
        let value = value.as_str().unwrap_or_default();
        errors.extend(qualified_name(path, key));
        errors.extend(each(path, value, names::is_valid_label_value(value)));
    }
    errors
}

/// A finalizer: a qualified name, and without a prefix one of the standard ones.
pub fn finalizer_name(path: &Path, value: &str) -> ErrorList {
    let mut errors = qualified_name(path, value);
    errors.extend(unqualified_finalizer(path, value));
    errors
}

/// What is wrong with a finalizer that has no prefix and is none of the standard ones.
pub fn unqualified_finalizer(path: &Path, value: &str) -> Option<FieldError> {
    let known = value.contains('/') || ["kubernetes", "orphan", "foregroundDeletion"].contains(&value);
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    (!known).then(|| FieldError::invalid(path, &value.into(), detail))
}

/// A value that may never change; nothing and an empty list or map are the same.
pub fn immutable(path: &Path, new: &Value, old: &Value) -> ErrorList {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if new == old || is_empty(new) && is_empty(old) {
        ErrorList::new()
    } else {
        vec![FieldError::invalid(path, new, "field is immutable")]
    }
}

/// A number that must not be negative.
pub fn non_negative(path: &Path, value: i64) -> ErrorList {
    if value >= 0 {
        return ErrorList::new();
    }
    vec![FieldError::invalid(path, &value.into(), "must be greater than or equal to 0")]
}

/// `Internal error: <detail>`.
pub fn internal(path: &Path, detail: impl Into<String>) -> FieldError {
    FieldError { kind: ErrorKind::Internal, field: path.to_string(), value: None, detail: detail.into() }
}

/// A struct of the real server's internal types, as a field error shows it: its Go fields in their order.
pub fn go_struct(fields: &[(&str, &Value)]) -> String {
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{}", go_format::marshal(value))).collect();
    format!("{{{}}}", fields.join(","))
}
