//! PersistentVolumeClaims.

mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, quote};

use super::persistent_volume::{OLD_CLASS, access_modes, amount, class, phase};
use crate::columns::{AGE, Column, NAME, Printer, age, column, name, or_unset, wide};
use crate::object::{is_set, map, remove, set, set_default, set_default_text, text};
use crate::resource_list::{quantity, round_up};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of PersistentVolumeClaims.
#[derive(Debug, Clone, Copy)]
pub struct PersistentVolumeClaim;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for PersistentVolumeClaim {
    fn default(&self, object: &mut Value) {
        set_default_text(object, "/status/phase", "Pending");
        set_default(object, "/spec/volumeMode", "Filesystem");
        for list in
            ["/spec/resources/limits", "/spec/resources/requests", "/status/capacity", "/status/allocatedResources"]
        {
            round_up(object, list);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({"phase": "Pending"}));
        settle_data_sources(object, None);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(object, None)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        settle_data_sources(object, Some(old));
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::validate_update(object, old)
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        if subresource == "status" { validation::validate_status(object) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if map(object, "/metadata/annotations").is_some_and(|all| all.contains_key(OLD_CLASS)) {
            let message = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            warnings.push(format!("metadata.annotations[{OLD_CLASS}]: {message}"));
        }
        for list in ["requests", "limits"] {
            let asked = object.pointer(&format!("/spec/resources/{list}/storage")).and_then(quantity);
            if let Some(asked) = asked.filter(|asked| asked.milli_value() % 1000 != 0) {
                let shown = quote(&asked.to_string());
                let path = format!("spec.resources.{list}[storage]");
                warnings.push(format!("{path}: fractional byte value {shown} is invalid, must be an integer"));
            }
        }
        warnings
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !text(object, "/spec/volumeName").is_empty();
    vec![
        name(object),
        phase(object),
        text(object, "/spec/volumeName").into(),
        if bound { amount(object, "/status/capacity/storage").into() } else { "".into() },
        if bound { access_modes(object, "/status/accessModes") } else { "".into() },
        class(object),
        or_unset(object, "/spec/volumeAttributesClassName"),
        age(object, now),
        or_unset(object, "/spec/volumeMode"),
    ]
}

/// Keeps `dataSource` and `dataSourceRef` consistent: the older field supports only claims and snapshots, and both are
/// set to the same value.
fn settle_data_sources(object: &mut Value, old: Option<&Value>) {
    const SOURCE: &str = "/spec/dataSource";
    const REFERENCE: &str = "/spec/dataSourceRef";
    let had = |field| old.is_some_and(|old| is_set(old, field));
    // Cross-namespace references are a feature gate that is off.
    if !text(object, "/spec/dataSourceRef/namespace").is_empty() && !had(REFERENCE) {
        remove(object, REFERENCE);
    }
    if !had(SOURCE) && !had(REFERENCE) && !is_set(object, REFERENCE) && !is_claim_or_snapshot(object) {
        remove(object, SOURCE);
    }
    same_data_sources(object);
}

fn is_claim_or_snapshot(object: &Value) -> bool {
    let part = |field: &str| text(object, &format!("/spec/dataSource/{field}"));
    matches!(
        (part("kind"), part("apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}

/// Sets the one of the two fields that is unset.
fn same_data_sources(object: &mut Value) {
    let copied = |object: &Value, from: &str| {
        let mut source = json!({});
        for field in ["apiGroup", "kind", "name"] {
            if let Some(value) = object.pointer(&format!("{from}/{field}")).filter(|value| !value.is_null()) {
                set(&mut source, &format!("/{field}"), value.clone());
            }
        }
        source
    };
    match (is_set(object, "/spec/dataSource"), is_set(object, "/spec/dataSourceRef")) {
        (true, false) => {
            let reference = copied(object, "/spec/dataSource");
            set(object, "/spec/dataSourceRef", reference);
        }
        (false, true) if text(object, "/spec/dataSourceRef/namespace").is_empty() => {
            let source = copied(object, "/spec/dataSourceRef");
            set(object, "/spec/dataSource", source);
        }
        _ => {}
    }
}

/// Returns whether a claim requests a class, in the field or in the deprecated annotation.
pub fn asks_for_class(claim: &Value) -> bool {
    old_class(claim).is_some() || is_set(claim, "/spec/storageClassName")
}

/// Returns the class of a claim or volume; the deprecated annotation takes precedence.
pub fn class_name(claim: &Value) -> &str {
    old_class(claim).unwrap_or_else(|| text(claim, "/spec/storageClassName"))
}

fn old_class(claim: &Value) -> Option<&str> {
    map(claim, "/metadata/annotations").and_then(|all| all.get(OLD_CLASS)?.as_str())
}

/// Returns whether a claim requests more storage than before.
pub fn grows(claim: &Value, old: &Value) -> bool {
    let asked = |claim: &Value| claim.pointer("/spec/resources/requests/storage").and_then(quantity);
    match (asked(claim), asked(old)) {
        (Some(new), Some(old)) => new > old,
        (new, None) => new.is_some_and(|new| new.sign() > 0),
        (None, Some(_)) => false,
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "string", "phase represents the current phase of PersistentVolumeClaim."),
    column("Volume", "string", "volumeName is the binding reference to the PersistentVolume backing this claim."),
    column("Capacity", "string", "capacity represents the actual resources of the underlying volume."),
    column(
        "Access Modes",
        "string",
        "accessModes contains the actual access modes the volume backing the PVC has. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1",
    ),
    column("StorageClass", "string", "StorageClass of the pvc"),
    column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pvc"),
    AGE,
    wide(
        "VolumeMode",
        "string",
        "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied when not included in claim spec.",
    ),
];

#[cfg(test)]
mod tests;
