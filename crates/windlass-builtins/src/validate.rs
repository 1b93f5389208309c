//! Validation that several kinds share, with the field errors of kube-apiserver.

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::{go_format, names};

/// Validates a string: returns kube-apiserver's messages about it.
pub type TextCheck = fn(&str) -> Vec<String>;

/// Returns one `Invalid value` error per message.
pub fn each(path: &Path, value: &str, messages: Vec<String>) -> ErrorList {
    messages.into_iter().map(|message| FieldError::invalid(path, &value.into(), message)).collect()
}

/// Validates a DNS label (RFC 1123).
pub fn dns_label(path: &Path, value: &str) -> ErrorList {
    each(path, value, names::is_dns1123_label(value))
}

/// Validates a DNS subdomain (RFC 1123).
pub fn dns_subdomain(path: &Path, value: &str) -> ErrorList {
    each(path, value, names::is_dns1123_subdomain(value))
}

/// Validates a qualified name: `name` or `prefix/name`.
pub fn qualified_name(path: &Path, value: &str) -> ErrorList {
    each(path, value, names::is_qualified_name(value))
}

/// Validates a port number.
pub fn port_number(path: &Path, port: i64) -> ErrorList {
    names::is_valid_port_num(port).into_iter().map(|message| FieldError::invalid(path, &port.into(), message)).collect()
}

/// Validates a port number or port name. Any other value counts as port 0.
pub fn port_number_or_name(path: &Path, port: &Value) -> ErrorList {
    match port {
        Value::String(name) => each(path, name, names::is_valid_port_name(name)),
        other => port_number(path, other.as_i64().unwrap_or_default()),
    }
}

/// Validates the protocol of a port.
pub fn protocol(path: &Path, protocol: &str) -> Option<FieldError> {
    const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
    match protocol {
        "" => Some(FieldError::required(path, "")),
        known if PROTOCOLS.contains(&known) => None,
        other => Some(FieldError::not_supported(path, &other.into(), PROTOCOLS)),
    }
}

/// Validates labels; all errors are reported for `path` itself.
pub fn labels<'a>(path: &Path, labels: impl IntoIterator<Item = (&'a str, &'a Value)>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels {
        let value = value.as_str().unwrap_or_default();
        errors.extend(qualified_name(path, key));
        errors.extend(each(path, value, names::is_valid_label_value(value)));
    }
    errors
}

/// Validates a finalizer: a qualified name, or one of the standard names if it has no prefix.
pub fn finalizer_name(path: &Path, value: &str) -> ErrorList {
    let mut errors = qualified_name(path, value);
    errors.extend(unqualified_finalizer(path, value));
    errors
}

/// Returns the error of a finalizer that has no prefix and is not a standard one.
pub fn unqualified_finalizer(path: &Path, value: &str) -> Option<FieldError> {
    let known = value.contains('/') || ["kubernetes", "orphan", "foregroundDeletion"].contains(&value);
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    (!known).then(|| FieldError::invalid(path, &value.into(), detail))
}

/// Requires an unchanged value; null, an empty list and an empty map are equal.
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

/// Requires a number that is not negative.
pub fn non_negative(path: &Path, value: i64) -> ErrorList {
    if value >= 0 {
        return ErrorList::new();
    }
    vec![FieldError::invalid(path, &value.into(), "must be greater than or equal to 0")]
}

/// Returns an error of the form `Internal error: <detail>`.
pub fn internal(path: &Path, detail: impl Into<String>) -> FieldError {
    FieldError { kind: ErrorKind::Internal, field: path.to_string(), value: None, detail: detail.into() }
}

/// Formats a struct of kube-apiserver's internal types as in its field errors: the Go fields in their order.
pub fn go_struct(fields: &[(&str, &Value)]) -> String {
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{}", go_format::marshal(value))).collect();
    format!("{{{}}}", fields.join(","))
}
