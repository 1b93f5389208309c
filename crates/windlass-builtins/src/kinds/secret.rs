//! Secrets.

mod docker_config;
mod tls;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::is_config_map_key;

use super::config_map::{MAX_DATA_SIZE, decoded_len, immutable_errors};
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::object::{carry_over, copy, entries, map, set_default_text, text};
use crate::strategy::{Strategy, WriteContext};
use crate::validate;

/// Strategy of Secrets.
#[derive(Debug, Clone, Copy)]
pub struct Secret;

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for Secret {
    fn default(&self, object: &mut Value) {
        set_default_text(object, "/type", "Opaque");
        merge_string_data(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let path = Path::new("data");
        let mut errors = ErrorList::new();
        let mut size = 0;
        for (key, value) in entries(object, "/data") {
            errors.extend(validate::each(&path.key(key), key, is_config_map_key(key)));
            size += decoded_len(value);
        }
        if size > MAX_DATA_SIZE {
            errors.push(FieldError::too_long(&path, MAX_DATA_SIZE));
        }
        errors.extend(validate_type(object));
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        if text(object, "/type").is_empty() {
            carry_over(object, old, "/type");
        }
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = validate::immutable(&Path::new("type"), &copy(object, "/type"), &copy(old, "/type"));
        errors.extend(immutable_errors(object, old, &["data"]));
        errors.extend(self.validate(object));
        errors
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        if text(object, "/type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let bytes = |key| value(object, key).unwrap_or_default();
        tls::pem_problem(&bytes("tls.crt"), &bytes("tls.key")).into_iter().collect()
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("type", text(object, "/type").to_owned())]
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "/type").into(), entries(object, "/data").count().into(), age(object, now)]
}

/// Validates the requirements of the known types.
fn validate_type(object: &Value) -> ErrorList {
    let path = Path::new("data");
    let has = |key: &str| map(object, "/data").is_some_and(|data| data.contains_key(key));
    let required = |key: &str| FieldError::required(&path.key(key), "");
    let mut errors = ErrorList::new();
    match text(object, "/type") {
        "kubernetes.io/service-account-token" => {
            let account = map(object, "/metadata/annotations").and_then(|all| all.get(SERVICE_ACCOUNT_NAME));
            if account.and_then(Value::as_str).is_none_or(str::is_empty) {
                let path = Path::new("metadata").child("annotations").key(SERVICE_ACCOUNT_NAME);
                errors.push(FieldError::required(&path, ""));
            }
        }
        "kubernetes.io/dockercfg" => errors.extend(docker_config_error(object, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => errors.extend(docker_config_error(object, ".dockerconfigjson")),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            errors.extend([required("username"), required("password")]);
        }
        "kubernetes.io/ssh-auth" if value(object, "ssh-privatekey").is_none_or(|key| key.is_empty()) => {
            errors.push(required("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            errors.extend(["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).map(required));
        }
        _ => {}
    }
    errors
}

fn docker_config_error(object: &Value, key: &str) -> Option<FieldError> {
    let path = Path::new("data").key(key);
    let Some(bytes) = value(object, key) else { return Some(FieldError::required(&path, "")) };
    let problem = docker_config::problem(&bytes)?;
    Some(FieldError::invalid(&path, &"<secret contents redacted>".into(), problem))
}

/// Returns the decoded value of a key.
fn value(object: &Value, key: &str) -> Option<Vec<u8>> {
    let text = map(object, "/data")?.get(key)?.as_str().unwrap_or_default();
    Some(STANDARD.decode(text).unwrap_or_default())
}

/// Moves `stringData`, which is write-only, into `data`; it takes precedence.
fn merge_string_data(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let Some(Value::Object(strings)) = fields.remove("stringData") else { return };
    for (key, value) in strings {
        let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
        if !fields.get("data").is_some_and(Value::is_object) {
            fields.insert("data".to_owned(), Value::Object(Default::default()));
        }
        if let Some(Value::Object(data)) = fields.get_mut("data") {
            data.insert(key, encoded.into());
        }
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Type",
        "string",
        "Used to facilitate programmatic handling of secret data. More info: https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
    ),
    column(
        "Data",
        "string",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
    ),
    AGE,
];

#[cfg(test)]
mod tests;
