//! Default: the fields that only the server sets, and the fields that the request may not change.

use serde_json::{Map, Value};
use windlass_builtins::strategy::WriteContext;

use super::allocate::{self, Allocation};
use crate::{call::Call, endpoint::Endpoint, meta, status::Result};

/// The number of characters of `generateName` that a generated name begins with.
const GENERATED_PREFIX: usize = 58;

/// Removes the fields that a client may not set on a new object.
pub(crate) fn remove_system_fields(object: &mut Value) {
    let metadata = meta::metadata_mut(object);
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// Returns whether the server has to generate the name of a new object.
pub(super) fn needs_generated_name(object: &Value) -> bool {
    meta::text(object, "name").is_empty() && !meta::text(object, "generateName").is_empty()
}

/// Completes a new object: identity, generated name, generation, empty status, allocations, the rules of its kind.
pub(super) fn prepare_for_create(call: &Call<'_>, object: &mut Value, dry_run: bool) -> Result<Allocation> {
    let (endpoint, strategy) = (call.endpoint, call.endpoint.strategy);
    meta::set(object, "uid", meta::new_uid());
    meta::set(object, "creationTimestamp", meta::format_time(call.server.now()));
    if endpoint.facts.generation.is_set() {
        meta::set(object, "generation", 1);
    }
    if needs_generated_name(object) {
        let base: String = meta::text(object, "generateName").chars().take(GENERATED_PREFIX).collect();
        meta::set(object, "name", base + &meta::name_suffix());
    }
    reset_status(endpoint, object);
    let allocation = allocate::allocate(call, object, None, dry_run)?;
    strategy.prepare_for_create(object, &write_context(call));
    Ok(allocation)
}

/// Completes a changed object: everything that this request may not change is as in `old`.
pub(super) fn prepare_for_update(
    call: &Call<'_>,
    object: &mut Value,
    old: &Value,
    dry_run: bool,
) -> Result<Allocation> {
    let (endpoint, strategy) = (call.endpoint, call.endpoint.strategy);
    meta::carry(object, old, "generation");
    let allocation = match call.subresource.map(|sub| &*sub.name) {
        None => {
            let allocation = allocate::allocate(call, object, Some(old), dry_run)?;
            keep_status(endpoint, object, old);
            strategy.prepare_for_update(object, old, &write_context(call));
            allocation
        }
        Some(name) => {
            keep_all_but_status(endpoint, name, object, old);
            strategy.prepare_for_subresource_update(name, object, old, &write_context(call));
            Allocation::none()
        }
    };
    keep_system_fields(object, old);
    if call.subresource.is_none() && endpoint.facts.generation.changes(object, old) {
        meta::set(object, "generation", meta::generation(old) + 1);
    }
    Ok(allocation)
}

/// The writer and the time of the write, for the kind's strategy.
fn write_context<'a>(call: &Call<'a>) -> WriteContext<'a> {
    let user = call.user;
    WriteContext {
        user_name: &user.name,
        user_uid: &user.uid,
        groups: &user.groups,
        extra: &user.extra,
        now: call.server.now(),
    }
}

/// Restores the metadata that no update may change.
fn keep_system_fields(object: &mut Value, old: &Value) {
    if meta::text(object, "uid").is_empty() {
        meta::carry(object, old, "uid");
    }
    meta::carry(object, old, "creationTimestamp");
    if meta::is_terminating(old) {
        meta::carry(object, old, "deletionTimestamp");
    }
    if object["metadata"]["deletionGracePeriodSeconds"].is_null() {
        meta::carry(object, old, "deletionGracePeriodSeconds");
    }
}

/// Removes the status that a client sent with a new object.
fn reset_status(endpoint: &Endpoint, object: &mut Value) {
    if endpoint.resource.subresource("status").is_none() || endpoint.facts.accepts_status_on_create {
        return;
    }
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if endpoint.custom().is_none() {
        *object = endpoint.normalize(object.take());
    }
}

/// Restores the status: an update of the object itself does not change it.
fn keep_status(endpoint: &Endpoint, object: &mut Value, old: &Value) {
    if endpoint.resource.subresource("status").is_none() {
        return;
    }
    match old.get("status") {
        Some(status) => object["status"] = status.clone(),
        None => {
            object.as_object_mut().map(|map| map.remove("status"));
        }
    }
}

/// Restores everything that an update of the status may not change. Custom resources may change only managed fields of
/// the metadata, and so may some built-in kinds; others may change everything but the deletion timestamp and owner
/// references.
fn keep_all_but_status(endpoint: &Endpoint, subresource: &str, object: &mut Value, old: &Value) {
    if !matches!(subresource, "status" | "approval") {
        return;
    }
    let (Some(new), Some(old)) = (object.as_object_mut(), old.as_object()) else { return };
    keep_all_but(new, old, &["metadata", "status"]);
    let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if endpoint.custom().is_some() {
        // The managed fields have just been updated.
        if let Some(Value::Object(old)) = old.get("metadata") {
            keep_all_but(metadata, old, &["managedFields"]);
        }
        return;
    }
    let all = ["deletionTimestamp", "ownerReferences", "labels", "annotations", "finalizers"];
    let kept = if endpoint.facts.keeps_metadata_on_status && subresource == "status" { &all[..] } else { &all[..2] };
    for field in kept.iter().copied() {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// Makes a map equal to an old one in all but some fields. Most of the others are equal already and are not touched.
fn keep_all_but(new: &mut Map<String, Value>, old: &Map<String, Value>, changed: &[&str]) {
    new.retain(|field, _| changed.contains(&field.as_str()) || old.contains_key(field));
    for (field, value) in old.iter().filter(|(field, _)| !changed.contains(&field.as_str())) {
        if new.get(field) != Some(value) {
            new.insert(field.clone(), value.clone());
        }
    }
}
