//! DeviceClasses of dynamic resource allocation.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::device_claim::{CONFIGURATIONS, validate_configuration, validate_list, validate_selectors};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::{copy, items};
use crate::resource_list::is_extended;
use crate::strategy::Strategy;

/// Strategy of DeviceClasses.
#[derive(Debug, Clone, Copy)]
pub struct DeviceClass;

impl Strategy for DeviceClass {
    fn validate(&self, object: &Value) -> ErrorList {
        validate(object, None)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validate(object, Some(old))
    }
}

fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    validate_selectors(items(object, "/spec/selectors"), &path.child("selectors"), &mut errors);
    let config = "/spec/config";
    let stored = old.is_some_and(|old| same(&copy(object, config), &copy(old, config)));
    validate_list(items(object, config), CONFIGURATIONS, &path.child("config"), &mut errors, |config, path, errors| {
        validate_configuration(config, stored, path, errors);
    });
    if let Some(name) = object.pointer("/spec/extendedResourceName").and_then(Value::as_str)
        && !is_extended(name)
    {
        errors.invalid(&path.child("extendedResourceName"), name, "must be a valid extended resource name");
    }
    errors
}
