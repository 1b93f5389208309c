//! Shared by the tests of workloads: a valid object, changed field by field.

use serde_json::{Value, json};
use windlass_schema::field::FieldError;

use crate::object::{remove, set};
use crate::strategy::{Strategy, WriteContext};

/// Returns a copy with fields set; null removes a field.
pub(in crate::kinds) fn changed(object: &Value, changes: &Value) -> Value {
    let mut object = object.clone();
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        if value.is_null() {
            remove(&mut object, pointer);
        } else {
            set(&mut object, pointer, value.clone());
        }
    }
    object
}

/// A pod template with the label `app: x`.
pub(in crate::kinds) fn template() -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Returns the object as it would be stored.
pub(in crate::kinds) fn created(kind: &dyn Strategy, object: &Value) -> Value {
    let mut object = object.clone();
    kind.default(&mut object);
    kind.prepare_for_create(&mut object, &WriteContext::test());
    object
}

/// Checks the errors of a create after each of these changes.
pub(in crate::kinds) fn check_create(kind: &dyn Strategy, valid: &Value, table: &[(Value, &[&str])]) {
    assert_eq!(shown(&kind.validate(&created(kind, valid))), [""; 0], "the valid object");
    for (changes, expected) in table {
        let object = created(kind, &changed(valid, changes));
        assert_eq!(shown(&kind.validate(&object)), *expected, "{changes}");
    }
}

/// Checks the errors of an update with each of these changes.
pub(in crate::kinds) fn check_update(kind: &dyn Strategy, old: &Value, table: &[(Value, &[&str])]) {
    for (changes, expected) in table {
        let mut object = changed(old, changes);
        kind.default(&mut object);
        kind.prepare_for_update(&mut object, old, &WriteContext::test());
        assert_eq!(shown(&kind.validate_update(&object, old)), *expected, "{changes}");
    }
}

/// Checks the errors of a status update with each of these changes.
pub(in crate::kinds) fn check_status(kind: &dyn Strategy, old: &Value, table: &[(Value, &[&str])]) {
    for (changes, expected) in table {
        let object = changed(old, changes);
        assert_eq!(shown(&kind.validate_subresource_update("status", &object, old)), *expected, "{changes}");
    }
}

/// Returns the errors as text.
pub(in crate::kinds) fn shown(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
