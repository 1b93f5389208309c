//! Validation of ephemeral volumes, and of the claim specs they share with PersistentVolumeClaims.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};
use windlass_schema::names;

use super::containers;
use super::resources::validate_quantity;
use crate::field_errors::FieldErrors;
use crate::kinds::label_selector;
use crate::object::{is_set, items, text};
use crate::resource_list::quantity;

/// Access modes, in the order of the messages.
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Metadata fields that are forbidden in a template, in the order of the API.
const NOT_IN_TEMPLATE: [&str; 13] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Validates an ephemeral volume.
pub(super) fn validate_ephemeral(source: &Value, path: &Path, errors: &mut ErrorList) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = source.get("volumeClaimTemplate").filter(|template| !template.is_null()) else {
        return errors.required(&path);
    };
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    super::annotations::validate(metadata, &path.child("metadata").child("annotations"), errors);
    label_selector::validate_labels(metadata, "/labels", &path.child("metadata").child("labels"), errors);
    forbid_other_metadata(metadata, &path.child("metadata"), errors);
    validate_spec(template.get("spec").unwrap_or(&Value::Null), Tolerated::default(), &path.child("spec"), errors);
}

/// Forbids metadata of a template besides labels and annotations.
pub(crate) fn forbid_other_metadata(metadata: &Value, path: &Path, errors: &mut ErrorList) {
    for field in NOT_IN_TEMPLATE {
        if metadata.get(field).is_some_and(containers::is_nonzero) {
            let shown = if field == "uid" { "uID" } else { field };
            errors.forbidden(&path.child(shown), "cannot be set");
        }
    }
}

/// Errors that are tolerated because the old claim already had them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tolerated {
    /// A selector with invalid label values.
    pub(crate) selector: bool,
    /// A data source with an invalid group.
    pub(crate) group: bool,
}

/// Validates the access modes of a claim or volume; the caller checks whether any are set.
pub(crate) fn validate_access_modes(modes: &[Value], path: &Path, errors: &mut ErrorList) {
    for mode in modes.iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(path, mode, &ACCESS_MODES);
    }
    let alone = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    let others = modes.iter().filter_map(Value::as_str).any(|mode| ACCESS_MODES[..3].contains(&mode));
    if alone && others {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Validates the spec of a claim.
pub(crate) fn validate_spec(spec: &Value, tolerated: Tolerated, path: &Path, errors: &mut ErrorList) {
    let modes = items(spec, "/accessModes");
    let at = path.child("accessModes");
    if modes.is_empty() {
        errors.required_because(&at, "at least 1 access mode is required");
    }
    let options = LabelSelectorOptions { allow_invalid_values: tolerated.selector, ..Default::default() };
    errors.extend(validate_label_selector(spec.get("selector"), options, &path.child("selector")));
    validate_access_modes(modes, &at, errors);
    let at = path.child("resources").key("storage");
    match spec.pointer("/resources/requests/storage").and_then(quantity) {
        None => errors.required(&at),
        Some(storage) if storage.sign() <= 0 => {
            errors.invalid(&at, storage.to_string(), "must be greater than zero");
        }
        Some(storage) => validate_quantity("storage", &storage, &at, errors),
    }
    validate_class_and_mode(spec, path, errors);
    validate_data_sources(spec, tolerated, path, errors);
    let class = text(spec, "/volumeAttributesClassName");
    if !class.is_empty() {
        errors.dns_subdomain(&path.child("volumeAttributesClassName"), class);
    }
}

/// Validates the storage class and volume mode of a claim or volume.
pub(in crate::kinds) fn validate_class_and_mode(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let class = text(spec, "/storageClassName");
    if !class.is_empty() {
        errors.dns_subdomain(&path.child("storageClassName"), class);
    }
    if let Some(mode) = spec.get("volumeMode").and_then(Value::as_str)
        && !matches!(mode, "Block" | "Filesystem")
    {
        errors.not_supported(&path.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
}

fn validate_data_sources(spec: &Value, tolerated: Tolerated, path: &Path, errors: &mut ErrorList) {
    for field in ["dataSource", "dataSourceRef"] {
        let Some(source) = spec.get(field).filter(|source| !source.is_null()) else { continue };
        let at = path.child(field);
        let (name, kind, group) = (text(source, "/name"), text(source, "/kind"), text(source, "/apiGroup"));
        errors.nonempty(&at.child("name"), name);
        errors.nonempty(&at.child("kind"), kind);
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.invalid(&at, kind, detail);
        }
        if !group.is_empty() && !tolerated.group {
            errors.dns_subdomain(&at.child("apiGroup"), group);
        }
        let namespace = text(source, "/namespace");
        if field == "dataSourceRef" && !namespace.is_empty() {
            errors.invalid_each(&at.child("namespace"), namespace, names::is_dns1123_label(namespace));
        }
    }
    if !is_set(spec, "/dataSource") || !is_set(spec, "/dataSourceRef") {
        return;
    }
    // Where the group is required, an absent one is null.
    let field_of =
        |source: &str, field: &str| spec.pointer(&format!("/{source}/{field}")).filter(|value| !value.is_null());
    let same = |field: &str| field_of("dataSource", field) == field_of("dataSourceRef", field);
    if !text(spec, "/dataSourceRef/namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid_shown(path, "{}".to_owned(), detail);
    } else if !(same("apiGroup") && same("kind") && same("name")) {
        errors.invalid_shown(path, "{}".to_owned(), "must match dataSourceRef");
    }
}
