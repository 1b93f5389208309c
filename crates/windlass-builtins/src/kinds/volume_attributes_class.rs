//! VolumeAttributesClasses.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::storage_class::{validate_parameters, validate_provisioner};
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::object::{copy, map, text};
use crate::strategy::Strategy;

/// Strategy of VolumeAttributesClasses.
#[derive(Debug, Clone, Copy)]
pub struct VolumeAttributesClass;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for VolumeAttributesClass {
    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_provisioner(text(object, "/driverName"), &Path::new("driverName"), &mut errors);
        validate_parameters(object, &mut errors);
        if map(object, "/parameters").is_none_or(serde_json::Map::is_empty) {
            errors.required_because(&Path::new("parameters"), "must contain at least one key/value pair");
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        for field in ["driverName", "parameters"] {
            let pointer = format!("/{field}");
            if copy(object, &pointer) != copy(old, &pointer) {
                errors.forbidden(&Path::new(field), format!("updates to {field} are forbidden."));
            }
        }
        errors.extend(self.validate(object));
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "/driverName").into(), age(object, now)]
}

const COLUMNS: &[Column] =
    &[NAME, column("DriverName", "string", "Name of the CSI driver This field is immutable."), AGE];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn a_class_has_a_driver_and_parameters() {
        check_create(&VolumeAttributesClass, json!({"driverName": "a.b", "parameters": {"x": "y"}}), expect![[""]]);
        check_create(
            &VolumeAttributesClass,
            json!({}),
            expect![[r#"
            driverName: Required value
            parameters: Required value: must contain at least one key/value pair
        "#]],
        );
    }

    #[test]
    fn a_class_never_changes() {
        let old = json!({"driverName": "a.b", "parameters": {"x": "y"}});
        let new = json!({"driverName": "a.c", "parameters": {"x": "z"}});
        check_update(
            &VolumeAttributesClass,
            new,
            old,
            expect![[r#"
            driverName: Forbidden: updates to driverName are forbidden.
            parameters: Forbidden: updates to parameters are forbidden.
        "#]],
        );
    }
}
