//! Namespaces and their deletion.
//!
//! DELETE does not remove a namespace but marks it as terminating ([`begin_deletion`]). The namespace controller
//! deletes its contents and then removes its entry from `spec.finalizers` through the `finalize` subresource. The
//! update after which nothing blocks the deletion removes the namespace ([`may_be_removed`]).

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::object::{carry_over, is_set, items, set, set_default_text, text};
use crate::strategy::{Strategy, WriteContext};
use crate::validate;

/// Label of every namespace with its own name.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer in `spec.finalizers` for the namespace's contents.
pub const CONTENTS_FINALIZER: &str = "kubernetes";

/// Strategy of Namespaces.
#[derive(Debug, Clone, Copy)]
pub struct Namespace;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for Namespace {
    fn default(&self, object: &mut Value) {
        label_with_name(object);
        set_default_text(object, "/status/phase", "Active");
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        // A generated name is known only now.
        label_with_name(object);
        set(object, "/status", json!({"phase": "Active"}));
        let mut finalizers = items(object, "/spec/finalizers").to_vec();
        if !finalizers.iter().any(|finalizer| finalizer == CONTENTS_FINALIZER) {
            finalizers.push(CONTENTS_FINALIZER.into());
        }
        set(object, "/spec/finalizers", finalizers);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let path = Path::new("spec").child("finalizers");
        finalizers(object).flat_map(|finalizer| validate::finalizer_name(&path, finalizer)).collect()
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        carry_over(object, old, "/spec/finalizers");
        carry_over(object, old, "/status");
    }

    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        _context: &WriteContext<'_>,
    ) {
        match subresource {
            "status" => carry_over(object, old, "/spec"),
            "finalize" => carry_over(object, old, "/status"),
            _ => {}
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        match subresource {
            "status" => phase_error(object).into_iter().collect(),
            "finalize" => {
                let path = Path::new("spec").child("finalizers");
                finalizers(object)
                    .enumerate()
                    .flat_map(|(i, name)| validate::finalizer_name(&path.index(i), name))
                    .collect()
            }
            _ => ErrorList::new(),
        }
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.phase", text(object, "/status/phase").to_owned())]
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "/status/phase").into(), age(object, now)]
}

/// Marks a namespace as terminating. Returns false if it already was: a further DELETE then removes it if
/// [`may_be_removed`], and otherwise does nothing.
pub fn begin_deletion(object: &mut Value, now: Timestamp) -> bool {
    if is_set(object, "/metadata/deletionTimestamp") {
        return false;
    }
    set(object, "/metadata/deletionTimestamp", now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    set(object, "/status/phase", "Terminating");
    true
}

/// Returns whether a namespace can be removed: it is terminating, and both lists of finalizers are empty.
pub fn may_be_removed(object: &Value) -> bool {
    is_set(object, "/metadata/deletionTimestamp")
        && items(object, "/metadata/finalizers").is_empty()
        && items(object, "/spec/finalizers").is_empty()
}

fn label_with_name(object: &mut Value) {
    let name = text(object, "/metadata/name").to_owned();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if name.is_empty() {
        return;
    }
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if !labels.is_object() {
        *labels = json!({});
    }
    labels[NAME_LABEL] = name.into();
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    items(object, "/spec/finalizers").iter().map(|finalizer| finalizer.as_str().unwrap_or_default())
}

/// Requires a phase that matches the deletion timestamp.
fn phase_error(object: &Value) -> Option<FieldError> {
    let (phase, detail) = if is_set(object, "/metadata/deletionTimestamp") {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    let actual = text(object, "/status/phase");
    // The capital letter is kube-apiserver's.
    (actual != phase).then(|| FieldError::invalid(&Path::new("status").child("Phase"), &actual.into(), detail))
}

const COLUMNS: &[Column] = &[NAME, column("Status", "string", "The status of the namespace"), AGE];

#[cfg(test)]
mod tests;
