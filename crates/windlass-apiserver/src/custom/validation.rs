//! Validates a custom resource by its CustomResourceDefinition.

use serde_json::Value;
use windlass_builtins::kinds::custom_resource_definition::Scale;
use windlass_cel::rules::{self, OBJECT_BUDGET};
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::{Custom, scale};

impl Custom {
    /// Validates the kind and version that an object claims. If one is wrong, nothing else is validated.
    pub(crate) fn validate_type(&self, kind: &str, api_version: &str, object: &Value) -> ErrorList {
        let expected = [("kind", kind), ("apiVersion", api_version)];
        let wrong = expected.into_iter().filter(|(field, expected)| object[field] != **expected);
        wrong
            .map(|(field, expected)| {
                FieldError::invalid(&Path::new(field), &object[field], format!("must be {expected}"))
            })
            .collect()
    }

    /// Validates a new or changed object, metadata excepted.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>, warn: impl FnMut(String)) -> ErrorList {
        let schema = &self.compiled().schema;
        let root = Path::root();
        let mut errors = schema.validate_schema(&root, object, old);
        if let Some(scale) = &self.scale {
            errors.extend(scale_errors(scale, object));
        }
        errors.extend(schema.validate_embedded(&root, object, false));
        errors.extend(match old {
            Some(old) => schema.validate_lists_update(object, old),
            None => schema.validate_lists(object),
        });
        self.validate_rules(object, old, &mut errors, warn);
        errors
    }

    /// Validates a changed status, metadata excepted.
    pub(crate) fn validate_status(&self, object: &Value, old: &Value, warn: impl FnMut(String)) -> ErrorList {
        let schema = &self.compiled().schema;
        let mut errors = ErrorList::new();
        if let (Some(schema), Some(status)) = (schema.properties.get("status"), object.get("status")) {
            errors = schema.validate_schema(&Path::new("status"), status, old.get("status"));
        }
        if let Some(scale) = &self.scale {
            errors.extend(scale_status_errors(scale, object));
        }
        errors.extend(schema.validate_lists_update(object, old));
        self.validate_rules(object, Some(old), &mut errors, warn);
        errors
    }

    /// Runs the validation rules, unless errors of the schema block them.
    fn validate_rules(&self, object: &Value, old: Option<&Value>, errors: &mut ErrorList, warn: impl FnMut(String)) {
        let Some(rules) = &self.compiled().rules else { return };
        if let Some(error) = rules::blocked_by(errors) {
            errors.push(error);
            return;
        }
        let mut budget = OBJECT_BUDGET;
        let outcome = rules.validate(&Path::root(), object, old, &mut budget);
        errors.extend(outcome.errors);
        outcome.warnings.into_iter().for_each(warn);
    }
}

fn scale_errors(scale: &Scale, object: &Value) -> ErrorList {
    let mut errors = replicas_errors(&scale.spec_replicas_path, object);
    errors.extend(scale_status_errors(scale, object));
    errors
}

fn scale_status_errors(scale: &Scale, object: &Value) -> ErrorList {
    let mut errors = replicas_errors(&scale.status_replicas_path, object);
    if let Some(path) = &scale.label_selector_path
        && let Err(error) = scale::text(object, path)
    {
        errors.push(FieldError::invalid(&Path::new(path), &Value::from(""), error));
    }
    errors
}

fn replicas_errors(path: &str, object: &Value) -> ErrorList {
    let (replicas, detail) = match scale::integer(object, path) {
        Err(error) => (0, error),
        Ok(Some(replicas)) if replicas < 0 => (replicas, "should be a non-negative integer".to_owned()),
        Ok(Some(replicas)) if replicas > i64::from(i32::MAX) => {
            (replicas, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => return ErrorList::new(),
    };
    vec![FieldError::invalid(&Path::new(path), &replicas.into(), detail)]
}
