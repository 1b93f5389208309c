//! ConfigMaps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::is_config_map_key;

use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::object::{boolean, entries, map};
use crate::strategy::Strategy;
use crate::validate;

/// Maximum total size of the values of a ConfigMap or Secret, in bytes.
pub(crate) const MAX_DATA_SIZE: usize = 1024 * 1024;

/// Strategy of ConfigMaps.
#[derive(Debug, Clone, Copy)]
pub struct ConfigMap;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for ConfigMap {
    fn validate(&self, object: &Value) -> ErrorList {
        let (data, binary) = (Path::new("data"), Path::new("binaryData"));
        let mut errors = ErrorList::new();
        let mut size = 0;
        for (key, value) in entries(object, "/data") {
            errors.extend(validate::each(&data.key(key), key, is_config_map_key(key)));
            if map(object, "/binaryData").is_some_and(|binary| binary.contains_key(key)) {
                let detail = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid(&data.key(key), &key.into(), detail));
            }
            size += value.as_str().map_or(0, str::len);
        }
        for (key, value) in entries(object, "/binaryData") {
            errors.extend(validate::each(&binary.key(key), key, is_config_map_key(key)));
            size += decoded_len(value);
        }
        if size > MAX_DATA_SIZE {
            errors.push(FieldError { field: String::new(), ..FieldError::too_long(&Path::root(), MAX_DATA_SIZE) });
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = immutable_errors(object, old, &["data", "binaryData"]);
        errors.extend(self.validate(object));
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let keys = entries(object, "/data").count() + entries(object, "/binaryData").count();
    vec![name(object), keys.into(), age(object, now)]
}

/// Rejects changes to an object with `immutable: true`: of that field and of `fields`.
pub(crate) fn immutable_errors(object: &Value, old: &Value, fields: &[&str]) -> ErrorList {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    let mut errors = ErrorList::new();
    if boolean(old, "/immutable") != Some(true) {
        return errors;
    }
    if boolean(object, "/immutable") != Some(true) {
        errors.push(FieldError::forbidden(&Path::new("immutable"), DETAIL));
    }
    for field in fields {
        let pointer = format!("/{field}");
        if !entries(object, &pointer).eq(entries(old, &pointer)) {
            errors.push(FieldError::forbidden(&Path::new(field), DETAIL));
        }
    }
    errors
}

/// Returns the decoded length of a base64 value.
pub(crate) fn decoded_len(value: &Value) -> usize {
    value.as_str().and_then(|text| STANDARD.decode(text).ok()).map_or(0, |bytes| bytes.len())
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Data",
        "string",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is enforced during validation process.",
    ),
    AGE,
];

#[cfg(test)]
mod tests;
