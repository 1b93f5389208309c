//! Configurations of devices, which only their drivers understand.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::go_format::marshal;

use super::driver_name;
use crate::field_errors::FieldErrors;
use crate::object::{is_set, text};

const PARAMETER_BYTES: usize = 10 << 10;

/// Validates a configuration. The size of stored parameters is not checked again.
pub(in super::super) fn validate_configuration(config: &Value, stored: bool, path: &Path, errors: &mut ErrorList) {
    let path = path.child("opaque");
    if !is_set(config, "/opaque") {
        return errors.required(&path);
    }
    driver_name(&path.child("driver"), text(config, "/opaque/driver"), errors);
    let max = if stored { usize::MAX } else { PARAMETER_BYTES };
    validate_raw(&config["opaque"]["parameters"], max, &path.child("parameters"), errors);
}

/// Requires an object of any content, of a limited size.
pub(in super::super) fn validate_raw(raw: &Value, max: usize, path: &Path, errors: &mut ErrorList) {
    if raw.is_null() {
        errors.required(path);
    } else if marshal(raw).len() > max {
        errors.push(FieldError::too_long(path, max));
    } else if !raw.is_object() {
        errors.invalid(path, "<value omitted>", "must be a valid JSON object");
    }
}
