//! What the tests of workloads share: a valid object, changed field by field.

use serde_json::{Value, json};
use windlass_schema::field::FieldError;

use crate::object::{remove, set};
use crate::strategy::Strategy;

/// A copy with fields set; null removes a field.
pub(super) fn changed(object: &Value, changes: &Value) -> Value {
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

/// A template of pods with the label `app: x`.
pub(super) fn template() -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// The object as it would be stored.
pub(super) fn created(kind: &dyn Strategy, object: &Value) -> Value {
    let mut object = object.clone();
    kind.default(&mut object);
    kind.prepare_for_create(&mut object);
    object
}

/// Every error of a new object after each of these changes; none is shown as nothing.
pub(super) fn check_create(kind: &dyn Strategy, valid: &Value, table: &[(Value, &[&str])]) {
    assert_eq!(shown(&kind.validate(&created(kind, valid))), [""; 0], "the valid object");
    for (changes, expected) in table {
        let object = created(kind, &changed(valid, changes));
        assert_eq!(shown(&kind.validate(&object)), *expected, "{changes}");
    }
}

/// Every error of an object after each of these changes to it.
pub(super) fn check_update(kind: &dyn Strategy, old: &Value, table: &[(Value, &[&str])]) {
    for (changes, expected) in table {
        let mut object = changed(old, changes);
        kind.default(&mut object);
        kind.prepare_for_update(&mut object, old);
        assert_eq!(shown(&kind.validate_update(&object, old)), *expected, "{changes}");
    }
}

/// Every error of a status after each of these changes to it.
pub(super) fn check_status(kind: &dyn Strategy, old: &Value, table: &[(Value, &[&str])]) {
    for (changes, expected) in table {
        let object = changed(old, changes);
        assert_eq!(shown(&kind.validate_subresource_update("status", &object, old)), *expected, "{changes}");
    }
}

/// Errors as messages have them.
pub(super) fn shown(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
