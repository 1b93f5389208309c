//! The status of a claim: its allocation, its users, and the state of its devices.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::object_meta::validate_label_name;
use windlass_schema::{names::is_valid_interface_address, sorting::Gather as _};

use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::kinds::conditions;
use crate::kinds::device_claim::{
    ALLOCATION, CONFIGURATIONS, REQUESTS, RequestNames, driver_name, pool_name, unique_id, validate_configuration,
    validate_list, validate_raw, validate_set,
};
use crate::kinds::internal_types::{TEXT, show};
use crate::kinds::pod::validation::scheduling::validate_node_selector;
use crate::object::{copy, is_set, items, remove, set, text};

const USERS: usize = 256;
const CONDITIONS: usize = 8;
const DATA_BYTES: usize = 10 << 10;
const BINDING_CONDITIONS: usize = 4;
const INTERFACE_BYTES: usize = 256;
const HARDWARE_BYTES: usize = 128;
const ADDRESSES: usize = 16;

/// Removes the state of devices that are no longer allocated.
pub(super) fn drop_deallocated_devices(object: &mut Value, old: &Value) {
    let (now, before) = (allocated(object), allocated(old));
    let devices = items(object, "/status/devices");
    let is_gone = |device: &Value| before.contains(&identity(device)) && !now.contains(&identity(device));
    let kept: Vec<Value> = devices.iter().filter(|device| !is_gone(device)).cloned().collect();
    if kept.is_empty() {
        remove(object, "/status/devices");
    } else if kept.len() < devices.len() {
        set(object, "/status/devices", kept);
    }
}

/// Returns the allocated devices.
fn allocated(object: &Value) -> BTreeSet<String> {
    items(object, "/status/allocation/devices/results").iter().map(identity).gather()
}

/// Returns what identifies a device, or a share of one, as messages show it.
fn identity(device: &Value) -> String {
    show(
        device,
        &[("Driver", "driver", TEXT), ("Pool", "pool", TEXT), ("Device", "device", TEXT), ("ShareID", "shareID", TEXT)],
    )
}

/// Validates an update of the status.
pub(super) fn validate(object: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let users = items(object, "/status/reservedFor");
    let users_path = path.child("reservedFor");
    let uid = |user: &Value| text(user, "/uid").to_owned();
    validate_set(users, USERS, uid, &users_path, &mut errors, |user, path, errors| {
        for field in ["resource", "name", "uid"] {
            errors.nonempty(&path.child(field), text(user, &format!("/{field}")));
        }
    });
    let allocated = allocated(object);
    let devices = items(object, "/status/devices");
    validate_list(devices, usize::MAX, &path.child("devices"), &mut errors, |device, path, errors| {
        validate_device(device, &allocated, path, errors);
    });
    let mut seen = BTreeSet::new();
    for (index, device) in devices.iter().enumerate() {
        if !seen.insert(identity(device)) {
            errors.duplicate_shown(&path.child("devices").index(index), identity(device));
        }
    }
    let allocation = copy(object, "/status/allocation");
    if !users.is_empty() && allocation.is_null() {
        errors.forbidden(&users_path, "may not be specified when `allocated` is not set");
    } else if is_set(object, "/metadata/deletionTimestamp") {
        let had = items(old, "/status/reservedFor");
        if users.iter().any(|user| !had.iter().any(|have| same(have, user))) {
            let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.forbidden(&users_path, detail);
        }
    }
    let path = path.child("allocation");
    match (allocation.is_null(), copy(old, "/status/allocation")) {
        (false, before) if !before.is_null() => {
            if !same(&allocation, &before) {
                errors.invalid_shown(&path, show(&allocation, ALLOCATION), "field is immutable");
            }
        }
        (false, _) => validate_allocation(object, &allocation, &path, &mut errors),
        (true, _) => {}
    }
    errors
}

fn validate_allocation(object: &Value, allocation: &Value, path: &Path, errors: &mut ErrorList) {
    let names = RequestNames(items(object, "/spec/devices/requests"));
    let devices = path.child("devices");
    let results = items(allocation, "/devices/results");
    validate_list(results, REQUESTS, &devices.child("results"), errors, |result, path, errors| {
        names.validate(text(result, "/request"), &path.child("request"), errors);
        validate_identity(result, path, errors);
        validate_binding_conditions(result, path, errors);
        if is_set(result, "/shareID") {
            unique_id(&path.child("shareID"), text(result, "/shareID"), errors);
        }
    });
    let configurations = items(allocation, "/devices/config");
    validate_list(configurations, 2 * CONFIGURATIONS, &devices.child("config"), errors, |config, path, errors| {
        errors.one_of(&path.child("source"), text(config, "/source"), &["FromClaim", "FromClass"]);
        names.validate_all(items(config, "/requests"), &path.child("requests"), errors);
        validate_configuration(config, false, path, errors);
    });
    if is_set(allocation, "/nodeSelector") {
        validate_node_selector(&allocation["nodeSelector"], false, &path.child("nodeSelector"), errors);
    }
}

/// Validates driver, pool and name of a device.
fn validate_identity(device: &Value, path: &Path, errors: &mut ErrorList) {
    driver_name(&path.child("driver"), text(device, "/driver"), errors);
    pool_name(&path.child("pool"), text(device, "/pool"), errors);
    errors.dns_label(&path.child("device"), text(device, "/device"));
}

fn validate_device(device: &Value, allocated: &BTreeSet<String>, path: &Path, errors: &mut ErrorList) {
    validate_identity(device, path, errors);
    if is_set(device, "/shareID") {
        unique_id(&path.child("shareID"), text(device, "/shareID"), errors);
    }
    let identity = identity(device);
    if !allocated.contains(&identity) {
        errors.invalid_shown(path, identity, "must be an allocated device in the claim");
    }
    let (all, conditions_path) = (items(device, "/conditions"), path.child("conditions"));
    if all.len() > CONDITIONS {
        errors.push(FieldError::too_many(&conditions_path, all.len(), CONDITIONS));
    }
    conditions::validate(device, "/conditions", &conditions_path, errors);
    if is_set(device, "/data") {
        validate_raw(&device["data"], DATA_BYTES, &path.child("data"), errors);
    }
    let path = path.child("networkData");
    for (field, max) in [("interfaceName", INTERFACE_BYTES), ("hardwareAddress", HARDWARE_BYTES)] {
        if text(device, &format!("/networkData/{field}")).len() > max {
            errors.push(FieldError::too_long(&path.child(field), max));
        }
    }
    let address = |address: &Value| address.as_str().unwrap_or_default().to_owned();
    let addresses = items(device, "/networkData/ips");
    validate_set(addresses, ADDRESSES, address, &path.child("ips"), errors, |address, path, errors| {
        errors.extend(is_valid_interface_address(path, address.as_str().unwrap_or_default()));
    });
}

/// Validates the conditions of a device that a pod waits for before it is bound.
pub(in super::super) fn validate_binding_conditions(device: &Value, path: &Path, errors: &mut ErrorList) {
    let (needed, fatal) = (items(device, "/bindingConditions"), items(device, "/bindingFailureConditions"));
    let (needed_path, fatal_path) = (path.child("bindingConditions"), path.child("bindingFailureConditions"));
    let name = |condition: &Value| condition.as_str().unwrap_or_default().to_owned();
    for (list, path) in [(needed, &needed_path), (fatal, &fatal_path)] {
        validate_list(list, BINDING_CONDITIONS, path, errors, |condition, path, errors| {
            errors.extend(validate_label_name(&name(condition), path));
        });
    }
    for (list, path, overlaps) in [(needed, &needed_path, false), (fatal, &fatal_path, true)] {
        let mut seen = BTreeSet::new();
        for (index, condition) in list.iter().enumerate() {
            if !seen.insert(name(condition)) {
                errors.duplicate(&path.index(index), &name(condition));
            }
            if overlaps && needed.contains(condition) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(&path.index(index), name(condition), detail);
            }
        }
    }
    match (needed.is_empty(), fatal.is_empty()) {
        (true, false) => {
            let detail = "bindingConditions are required to use bindingFailureConditions";
            errors.invalid_shown(&needed_path, "null".to_owned(), detail);
        }
        (false, true) => {
            let detail = "bindingFailureConditions are required to use bindingConditions";
            errors.invalid_shown(&fatal_path, "null".to_owned(), detail);
        }
        _ => {}
    }
}
