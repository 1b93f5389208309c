//! Validation of volumes whose files come from API objects: Secrets, ConfigMaps, the downward API, service account
//! tokens.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::{env, paths};
use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, items, text};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const TWICE: &str = "conflicting duplicate paths";

/// Validates a volume of one object, whose name is in the field `name`.
pub(super) fn validate_files(source: &Value, name: &str, path: &Path, errors: &mut ErrorList) {
    errors.nonempty(&path.child(name), source.get(name).and_then(Value::as_str).unwrap_or_default());
    validate_mode(source, "defaultMode", path, errors);
    for (index, item) in items(source, "/items").iter().enumerate() {
        validate_item(item, &path.child("items").index(index), errors);
    }
}

/// Validates a downward API volume.
pub(super) fn validate_downward(source: &Value, path: &Path, errors: &mut ErrorList) {
    validate_mode(source, "defaultMode", path, errors);
    for file in items(source, "/items") {
        validate_downward_file(file, path, errors);
    }
}

/// Validates a projected volume.
pub(super) fn validate(source: &Value, path: &Path, errors: &mut ErrorList) {
    validate_mode(source, "defaultMode", path, errors);
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for (index, part) in items(source, "/sources").iter().enumerate() {
        let at = path.child("sources").index(index);
        let mut sources = 0;
        for kind in ["secret", "configMap"] {
            let Some(part) = part.get(kind).filter(|part| !part.is_null()) else { continue };
            sources += 1;
            let (at, name) = (at.child(kind), text(part, "/name"));
            errors.nonempty(&at.child("name"), name);
            for (index, item) in items(part, "/items").iter().enumerate() {
                validate_item(item, &at.child("items").index(index), errors);
                let target = text(item, "/path");
                if !target.is_empty() && !taken.insert(target) {
                    errors.invalid(path, name, TWICE);
                }
            }
        }
        if let Some(part) = part.get("downwardAPI").filter(|part| !part.is_null()) {
            sources += 1;
            for file in items(part, "/items") {
                validate_downward_file(file, &at.child("downwardAPI"), errors);
                let target = text(file, "/path");
                if !target.is_empty() && !taken.insert(target) {
                    errors.invalid(path, target, TWICE);
                }
            }
        }
        if let Some(token) = part.get("serviceAccountToken").filter(|token| !token.is_null()) {
            sources += 1;
            validate_token(token, &at.child("serviceAccountToken"), path, errors);
        }
        if sources > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}

fn validate_token(token: &Value, path: &Path, volume: &Path, errors: &mut ErrorList) {
    let seconds = integer(token, "/expirationSeconds").unwrap_or_default();
    if seconds < 600 {
        errors.invalid(&path.child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(&path.child("expirationSeconds"), seconds, detail);
    }
    let target = text(token, "/path");
    if target.is_empty() {
        errors.required(&volume.child("path"));
    } else {
        paths::local_non_reserved(target, &volume.child("path"), errors);
    }
}

fn validate_item(item: &Value, path: &Path, errors: &mut ErrorList) {
    errors.nonempty(&path.child("key"), text(item, "/key"));
    let target = text(item, "/path");
    errors.nonempty(&path.child("path"), target);
    paths::local_non_reserved(target, &path.child("path"), errors);
    validate_mode(item, "mode", path, errors);
}

fn validate_downward_file(file: &Value, path: &Path, errors: &mut ErrorList) {
    let target = text(file, "/path");
    errors.nonempty(&path.child("path"), target);
    paths::local_non_reserved(target, &path.child("path"), errors);
    let resource = file.get("resourceFieldRef").filter(|resource| !resource.is_null());
    match (file.get("fieldRef").filter(|field| !field.is_null()), resource) {
        (Some(field), resource) => {
            env::validate_field_ref(field, &env::VOLUME_FIELDS, &path.child("fieldRef"), errors);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        }
        (None, Some(resource)) => {
            env::validate_resource_ref(resource, true, &path.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.required_because(path, "one of fieldRef and resourceFieldRef is required"),
    }
    validate_mode(file, "mode", path, errors);
}

fn validate_mode(source: &Value, field: &str, path: &Path, errors: &mut ErrorList) {
    if let Some(mode) = integer(source, &format!("/{field}")).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(&path.child(field), mode, MODE);
    }
}

/// Forbids token projections in pods without a service account.
pub(super) fn forbid_tokens_without_account(spec: &Value, path: &Path, errors: &mut ErrorList) {
    if !text(spec, "/serviceAccountName").is_empty() {
        return;
    }
    for (index, volume) in items(spec, "/volumes").iter().enumerate() {
        for (part_index, part) in items(volume, "/projected/sources").iter().enumerate() {
            if is_set(part, "/serviceAccountToken") {
                let at = path.child("volumes").index(index).child("projected").child("sources").index(part_index);
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&at.child("serviceAccountToken"), detail);
            }
        }
    }
}
