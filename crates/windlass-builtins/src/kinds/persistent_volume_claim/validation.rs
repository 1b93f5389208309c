//! Validation of PersistentVolumeClaims and their updates.

use std::cmp::Ordering;

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};
use windlass_schema::names;
use windlass_schema::quantity::Quantity;

use super::{OLD_CLASS, same_data_sources};
use crate::diff::{diff, same};
use crate::field_errors::FieldErrors;
use crate::kinds::internal_types::show_claim_spec;
use crate::kinds::pod::validation::claims::{Tolerated, validate_spec};
use crate::kinds::pod::validation::resources::validate_quantity;
use crate::object::{carry_over, copy, entries, is_set, items, map, remove, set, text};
use crate::resource_list::{is_native, list, quantity};
use crate::validate;

const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Validates a claim; an existing one may keep values that were accepted earlier.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    let tolerated = old.map(tolerated).unwrap_or_default();
    let mut errors = ErrorList::new();
    validate_spec(object.get("spec").unwrap_or(&Value::Null), tolerated, &Path::new("spec"), &mut errors);
    errors
}

fn tolerated(old: &Value) -> Tolerated {
    let selector = old.pointer("/spec/selector");
    let has_group = |field: &str| is_set(old, &format!("/spec/{field}/apiGroup"));
    Tolerated {
        selector: !validate_label_selector(selector, LabelSelectorOptions::default(), &Path::root()).is_empty(),
        group: has_group("dataSource") || has_group("dataSourceRef"),
    }
}

/// Validates an update.
pub(super) fn validate_update(object: &Value, old: &Value) -> ErrorList {
    let mut errors = validate(object, Some(old));
    let (mut new_spec, mut old_spec) = (copy(object, "/spec"), copy(old, "/spec"));
    let mut settled = old.clone();
    same_data_sources(&mut settled);
    for field in ["/dataSource", "/dataSourceRef"] {
        if let Some(source) = settled.pointer(&format!("/spec{field}")) {
            set(&mut old_spec, field, source.clone());
        }
    }
    // The volume is set once, when the claim is bound.
    if text(&old_spec, "/volumeName").is_empty() {
        carry_over(&mut old_spec, &new_spec, "/volumeName");
    }
    class_change(object, old, &mut new_spec, &mut errors);
    if text(object, "/status/phase") == "Bound" {
        if map(&new_spec, "/resources/requests").is_some() {
            carry_over(&mut new_spec, &old_spec, "/resources/requests/storage");
        }
        carry_over(&mut new_spec, &old_spec, "/volumeAttributesClassName");
    }
    if !same(&new_spec, &old_spec) {
        let differences = diff(&show_claim_spec(&old_spec), &show_claim_spec(&new_spec));
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
             claims\n{differences}"
        );
        errors.forbidden(&Path::new("spec"), detail);
    }
    let size = |object: &Value, pointer: &str| object.pointer(pointer).and_then(quantity).unwrap_or(Quantity::zero());
    let requests = "/spec/resources/requests/storage";
    let (new_size, old_size) = (size(object, requests), size(old, requests));
    // A request may be reduced down to the current capacity, to recover from a failed expansion.
    let is_smaller = |a: &Quantity, b: &Quantity| a.partial_cmp(b) == Some(Ordering::Less);
    if is_smaller(&new_size, &old_size) && !is_smaller(&size(old, "/status/capacity/storage"), &new_size) {
        let path = Path::new("spec").child("resources").child("requests").child("storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
    let mode = "/spec/volumeMode";
    errors.extend(validate::immutable(&Path::new("volumeMode"), &copy(object, mode), &copy(old, mode)));
    attributes_class_change(object, old, &mut errors);
    errors
}

/// Allows setting the class later and moving it from the annotation to the field; both changes are reverted in
/// `new_spec`.
fn class_change(object: &Value, old: &Value, new_spec: &mut Value, errors: &mut ErrorList) {
    let annotation = |object| map(object, "/metadata/annotations").and_then(|all| all.get(OLD_CLASS)?.as_str());
    let (old_note, new_note) = (annotation(old), annotation(object));
    let named = object.pointer("/spec/storageClassName").and_then(Value::as_str);
    let was_unnamed = !is_set(old, "/spec/storageClassName");
    let moves = old_note.is_some() && was_unnamed && named == old_note && (new_note.is_none() || new_note == old_note);
    if moves {
        remove(new_spec, "/storageClassName");
        return;
    }
    if old_note.unwrap_or_default() != new_note.unwrap_or_default() {
        let path = Path::new("metadata").child("annotations").child(OLD_CLASS);
        errors.invalid(&path, new_note.unwrap_or_default(), "field is immutable");
    }
    if was_unnamed && named.is_some() && (old_note.is_none() || named == old_note) {
        carry_over(new_spec, &copy(old, "/spec"), "/storageClassName");
    }
}

fn attributes_class_change(object: &Value, old: &Value, errors: &mut ErrorList) {
    let field = "/spec/volumeAttributesClassName";
    if copy(object, field) == copy(old, field) || !is_set(old, "/status/currentVolumeAttributesClassName") {
        return;
    }
    let detail = match object.pointer(field).and_then(Value::as_str) {
        None => "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
        Some("") => "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil",
        Some(_) => return,
    };
    errors.forbidden(&Path::new("spec").child("volumeAttributesClassName"), detail);
}

/// Validates a changed status.
pub(super) fn validate_status(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if items(object, "/spec/accessModes").is_empty() {
        errors.required(&Path::new("Spec").child("accessModes"));
    }
    let status = Path::new("status");
    for (name, quantity) in list(object, "/status/capacity") {
        if quantity.value() < 0 {
            let at = status.child("capacity").key(&name);
            errors.invalid(&at, quantity.value(), "must be a valid resource quantity");
        }
    }
    let path = status.child("allocatedResourceStatuses");
    for (name, resize) in entries(object, "/status/allocatedResourceStatuses") {
        resource_key(name, &path, &mut errors);
        if !RESIZES.contains(&resize.as_str().unwrap_or_default()) {
            errors.not_supported(&path, name, &RESIZES);
        }
    }
    let path = status.child("allocatedResources");
    for (name, quantity) in list(object, "/status/allocatedResources") {
        let at = path.key(&name);
        let before = errors.len();
        resource_key(&name, &path, &mut errors);
        if errors.len() > before {
            continue;
        }
        if quantity.value() < 0 {
            errors.invalid(&at, quantity.value(), "must be a valid resource quantity");
        } else {
            validate_quantity("storage", &quantity, &at, &mut errors);
        }
    }
    errors
}

fn resource_key(name: &str, path: &Path, errors: &mut ErrorList) {
    let problems = names::is_qualified_name(name);
    if problems.is_empty() && is_native(name) && name != "storage" {
        errors.not_supported(path, name, &["storage"]);
    }
    errors.invalid_each(path, name, problems);
}
