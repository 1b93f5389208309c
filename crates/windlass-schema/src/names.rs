//! Rules for names, keys and other short strings, with the messages of kube-apiserver.
//!
//! Every `is_*` function returns the list of errors; an empty list means that the value is valid. The patterns quoted
//! in the messages are checked by hand, so that a check costs a single pass over the string.

use std::fmt::Write;

mod address;
mod ip;
mod port;
mod version;

pub use address::parse_address;
pub use ip::{
    cidr_warnings, format_ip, ip_warnings, is_valid_cidr, is_valid_cidr_legacy, is_valid_interface_address,
    is_valid_ip, is_valid_ip_legacy, parse_cidr_sloppy, parse_ip_sloppy,
};
pub use port::{is_valid_group_id, is_valid_port_name, is_valid_port_num, is_valid_user_id};
pub use version::compare_versions;

/// Maximum length of a DNS label.
pub const DNS1123_LABEL_MAX: usize = 63;
/// Maximum length of a DNS subdomain.
pub const DNS1123_SUBDOMAIN_MAX: usize = 253;

const LABEL_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FMT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MSG: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                             '.', and must start and end with an alphanumeric character";
const LABEL_KEY_FMT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Returns `must be no more than N characters`.
pub fn max_len_error(length: usize) -> String {
    format!("must be no more than {length} characters")
}

/// Returns `must be no more than N bytes`, the message for label keys and values.
pub fn max_bytes_error(length: usize) -> String {
    format!("must be no more than {length} bytes")
}

/// Returns `must be between LO and HI, inclusive`.
pub fn inclusive_range_error(lo: i64, hi: i64) -> String {
    format!("must be between {lo} and {hi}, inclusive")
}

/// Returns a message that quotes the required pattern, with examples.
pub fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    let mut out = String::with_capacity(message.len() + pattern.len() + 64);
    out.push_str(message);
    if examples.is_empty() {
        let _ = write!(out, " (regex used for validation is '{pattern}')");
        return out;
    }
    out.push_str(" (e.g. ");
    for (index, example) in examples.iter().enumerate() {
        let _ = write!(out, "{}'{example}', ", if index > 0 { " or " } else { "" });
    }
    let _ = write!(out, "regex used for validation is '{pattern}')");
    out
}

fn is_lower_alnum(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns whether the value starts with `first`, ends with `last` and has only `middle` in between: the pattern
/// `first(middle*last)?`.
fn delimited(value: &[u8], first: fn(u8) -> bool, middle: fn(u8) -> bool, last: fn(u8) -> bool) -> bool {
    match value {
        [] => false,
        [only] => first(*only),
        [head, body @ .., tail] => first(*head) && last(*tail) && body.iter().all(|b| middle(*b)),
    }
}

fn matches_label(value: &[u8]) -> bool {
    delimited(value, is_lower_alnum, |b| is_lower_alnum(b) || b == b'-', is_lower_alnum)
}

fn matches_subdomain(value: &str) -> bool {
    value.as_bytes().split(|b| *b == b'.').all(matches_label)
}

/// Checks for an RFC 1123 DNS label: at most 63 lower-case letters, digits and dashes.
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_LABEL_MAX {
        errors.push(max_len_error(DNS1123_LABEL_MAX));
    }
    if !matches_label(value.as_bytes()) {
        if matches_subdomain(value) {
            errors.push("must not contain dots".to_owned());
        } else {
            let message = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                           must start and end with an alphanumeric character";
            errors.push(regex_error(message, LABEL_FMT, &["my-name", "123-abc"]));
        }
    }
    errors
}

fn subdomain(value: &str, too_long: fn(usize) -> String) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(too_long(DNS1123_SUBDOMAIN_MAX));
    }
    if !matches_subdomain(value) {
        errors.push(regex_error(SUBDOMAIN_MSG, SUBDOMAIN_FMT, &["example.com"]));
    }
    errors
}

/// Checks for an RFC 1123 DNS subdomain: labels joined by dots, at most 253 bytes.
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value, max_len_error)
}

/// Checks for a DNS subdomain that may contain upper-case letters; the length error says bytes.
pub fn is_dns1123_subdomain_caseless(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(max_bytes_error(DNS1123_SUBDOMAIN_MAX));
    }
    if !matches_subdomain(&value.to_ascii_lowercase()) {
        let message = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and \
                       end with an alphanumeric character";
        errors.push(regex_error(message, SUBDOMAIN_FMT, &["Example.com"]));
    }
    errors
}

/// Checks for a DNS subdomain whose labels may start with, and contain, underscores.
pub fn is_dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(max_len_error(DNS1123_SUBDOMAIN_MAX));
    }
    let fits = |label: &[u8]| {
        let rest = label.strip_prefix(b"_").unwrap_or(label);
        delimited(rest, is_lower_alnum, |b| is_lower_alnum(b) || b == b'-' || b == b'_', is_lower_alnum)
    };
    if !value.as_bytes().split(|b| *b == b'.').all(fits) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
                       '.', and must start and end with an alphanumeric character";
        let pattern = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
        errors.push(regex_error(message, pattern, &["example.com"]));
    }
    errors
}

/// Checks for an RFC 1035 DNS label: like [`is_dns1123_label`], starting with a letter.
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_LABEL_MAX {
        errors.push(max_len_error(DNS1123_LABEL_MAX));
    }
    let middle = |b| is_lower_alnum(b) || b == b'-';
    if !delimited(value.as_bytes(), |b| b.is_ascii_lowercase(), middle, is_lower_alnum) {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                       alphabetic character, and end with an alphanumeric character";
        errors.push(regex_error(message, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    errors
}

/// Checks for a wildcard subdomain: `*.` and a DNS subdomain.
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(max_len_error(DNS1123_SUBDOMAIN_MAX));
    }
    if !value.strip_prefix("*.").is_some_and(matches_subdomain) {
        let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
                       must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric \
                       character";
        errors.push(regex_error(message, &format!(r"\*\.{SUBDOMAIN_FMT}"), &["*.example.com"]));
    }
    errors
}

fn matches_label_key_name(name: &[u8]) -> bool {
    let middle = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    delimited(name, |b| b.is_ascii_alphanumeric(), middle, |b| b.is_ascii_alphanumeric())
}

/// Checks for a qualified name: the rule for label keys, annotation keys (lower-cased), finalizers and condition types.
pub fn is_qualified_name(value: &str) -> Vec<String> {
    let message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                   alphanumeric character";
    let pattern_error = || regex_error(message, LABEL_KEY_FMT, &["MyName", "my.name", "123-abc"]);
    let mut errors = Vec::new();
    let mut parts = value.split('/');
    let first = parts.next().unwrap_or_default();
    let name = match (parts.next(), parts.next()) {
        (None, _) => first,
        (Some(name), None) => {
            if first.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain(first, max_bytes_error).into_iter().map(|m| format!("prefix part {m}")));
            }
            name
        }
        _ => {
            let tail = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {}{tail}", pattern_error())];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > DNS1123_LABEL_MAX {
        errors.push(format!("name part {}", max_bytes_error(DNS1123_LABEL_MAX)));
    }
    if !matches_label_key_name(name.as_bytes()) {
        errors.push(format!("name part {}", pattern_error()));
    }
    errors
}

/// Checks for a label value: empty, or at most 63 letters, digits, dashes, underscores and dots.
pub fn is_valid_label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_LABEL_MAX {
        errors.push(max_bytes_error(DNS1123_LABEL_MAX));
    }
    if !value.is_empty() && !matches_label_key_name(value.as_bytes()) {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                       and must start and end with an alphanumeric character";
        errors.push(regex_error(message, &format!("({LABEL_KEY_FMT})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Checks for a C identifier.
pub fn is_c_identifier(value: &str) -> Vec<String> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if delimited(value.as_bytes(), |b| b.is_ascii_alphabetic() || b == b'_', word, word) {
        return Vec::new();
    }
    let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                   alphanumeric characters or '_'";
    vec![regex_error(message, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"])]
}

/// Checks for a name that can be used as one segment of a URL path.
pub fn is_path_segment_name(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => is_path_segment_prefix(name),
    }
}

/// Checks for the prefix of a name that can be used as one segment of a URL path.
pub fn is_path_segment_prefix(name: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|part| name.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

fn change_directory_errors(value: &str, errors: &mut Vec<String>) {
    match value {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if value.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
}

/// Checks for the name of an environment variable, by the strict rule.
pub fn is_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let head = |b: u8| b.is_ascii_alphabetic() || matches!(b, b'-' | b'.' | b'_');
    let rest = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if !delimited(value.as_bytes(), head, rest, rest) {
        let message = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or \
                       '.', and must not start with a digit";
        let examples = ["my.env-name", "MY_ENV.NAME", "MyEnvName1"];
        errors.push(regex_error(message, "[-._a-zA-Z][-._a-zA-Z0-9]*", &examples));
    }
    change_directory_errors(value, &mut errors);
    errors
}

/// Checks for the name of an environment variable, by the relaxed rule that is enabled by default.
pub fn is_relaxed_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if !value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        let message =
            "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(message.to_owned());
    }
    errors
}

/// Checks for a key of a ConfigMap or Secret.
pub fn is_config_map_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(max_len_error(DNS1123_SUBDOMAIN_MAX));
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if value.is_empty() || !value.bytes().all(fits) {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(regex_error(message, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    change_directory_errors(value, &mut errors);
    errors
}

/// Checks for a percentage: digits and `%`.
pub fn is_valid_percent(value: &str) -> Vec<String> {
    if value.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(message, "[0-9]+%", &["1%", "93%"])]
}

/// Checks for the name of an HTTP header.
pub fn is_http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_error(message, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// The rule for an object's name; `prefix` means that a suffix will be added, as for `generateName`.
pub type NameRule = fn(name: &str, prefix: bool) -> Vec<String>;

/// Checks a prefix that ends in a dash as if a letter followed.
fn with_prefix_masked(name: &str, prefix: bool, rule: fn(&str) -> Vec<String>) -> Vec<String> {
    if prefix && name.len() > 1 && name.ends_with('-') {
        let cut = name.len() - 2;
        if name.is_char_boundary(cut) {
            return rule(&format!("{}a", &name[..cut]));
        }
    }
    rule(name)
}

/// Names that are DNS subdomains: most kinds.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    with_prefix_masked(name, prefix, is_dns1123_subdomain)
}

/// Names that are DNS labels: namespaces.
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    with_prefix_masked(name, prefix, is_dns1123_label)
}

/// Names that are RFC 1035 DNS labels: services by the old rule.
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    with_prefix_masked(name, prefix, is_dns1035_label)
}

/// Names that are path segments: RBAC objects.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { is_path_segment_prefix(name) } else { is_path_segment_name(name) }
}

#[cfg(test)]
mod tests;
