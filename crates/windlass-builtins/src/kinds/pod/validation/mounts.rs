//! Validation of volume mounts and block devices.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::paths;
use crate::field_errors::FieldErrors;
use crate::object::{boolean, is_set, items, text};

/// Valid volumes of a pod, by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Validates the mounts and block devices of a container.
pub(super) fn validate(container: &Value, volumes: &Volumes<'_>, path: &Path, errors: &mut ErrorList) {
    let mounts = items(container, "/volumeMounts");
    let devices = items(container, "/volumeDevices");
    if !mounts.is_empty() {
        validate_mounts(container, mounts, devices, volumes, &path.child("volumeMounts"), errors);
    }
    if !devices.is_empty() {
        validate_devices(devices, mounts, volumes, &path.child("volumeDevices"), errors);
    }
}

fn validate_mounts(
    container: &Value,
    mounts: &[Value],
    devices: &[Value],
    volumes: &Volumes<'_>,
    path: &Path,
    errors: &mut ErrorList,
) {
    let privileged = boolean(container, "/securityContext/privileged") == Some(true);
    let mut seen = BTreeSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let at = path.index(index);
        let (name, mount_path) = (text(mount, "/name"), text(mount, "/mountPath"));
        errors.nonempty(&at.child("name"), name);
        if !volumes.contains_key(name) {
            errors.not_found(&at.child("name"), name);
        }
        errors.nonempty(&at.child("mountPath"), mount_path);
        if !seen.insert(mount_path) {
            errors.invalid(&at.child("mountPath"), mount_path, "must be unique");
        }
        if devices.iter().any(|device| text(device, "/name") == name) {
            errors.invalid(&at.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| text(device, "/devicePath") == mount_path) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(&at.child("mountPath"), mount_path, detail);
        }
        let (sub_path, expression) = (text(mount, "/subPath"), text(mount, "/subPathExpr"));
        if !sub_path.is_empty() {
            paths::local_descending(sub_path, &path.child("subPath"), errors);
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(&at.child("subPathExpr"), expression, detail);
            }
            paths::local_descending(expression, &path.child("subPathExpr"), errors);
        }
        validate_propagation(mount, privileged, &path.child("mountPropagation"), errors);
        validate_recursive_read_only(mount, &path.child("recursiveReadOnly"), errors);
    }
}

fn validate_propagation(mount: &Value, privileged: bool, path: &Path, errors: &mut ErrorList) {
    if !is_set(mount, "/mountPropagation") {
        return;
    }
    let mode = text(mount, "/mountPropagation");
    let supported = ["Bidirectional", "HostToContainer", "None"];
    if !supported.contains(&mode) {
        errors.not_supported(path, mode, &supported);
    }
    if mode == "Bidirectional" && !privileged {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_recursive_read_only(mount: &Value, path: &Path, errors: &mut ErrorList) {
    if !is_set(mount, "/recursiveReadOnly") {
        return;
    }
    match text(mount, "/recursiveReadOnly") {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if boolean(mount, "/readOnly") != Some(true) {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if !matches!(text(mount, "/mountPropagation"), "" | "None") {
                errors.forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        other => errors.not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn validate_devices(devices: &[Value], mounts: &[Value], volumes: &Volumes<'_>, path: &Path, errors: &mut ErrorList) {
    let (mut names, mut device_paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in devices.iter().enumerate() {
        let at = path.index(index);
        let (name, device_path) = (text(device, "/name"), text(device, "/devicePath"));
        let (name_at, path_at) = (at.child("name"), at.child("devicePath"));
        errors.nonempty(&name_at, name);
        if names.contains(name) {
            errors.invalid(&name_at, name, "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(&name_at, name),
            Some(volume) if !is_set(volume, "/persistentVolumeClaim") && !is_set(volume, "/ephemeral") => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&name_at, name, detail);
            }
            Some(_) => {}
        }
        errors.nonempty(&path_at, device_path);
        if device_paths.contains(device_path) {
            errors.invalid(&path_at, device_path, "must be unique");
        }
        if paths::has_backsteps(device_path) {
            errors.invalid(&path_at, device_path, "can not contain backsteps ('..')");
        } else {
            device_paths.insert(device_path);
        }
        if mounts.iter().any(|mount| text(mount, "/name") == name) {
            errors.invalid(&name_at, name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| text(mount, "/mountPath") == device_path) {
            errors.invalid(&path_at, device_path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
