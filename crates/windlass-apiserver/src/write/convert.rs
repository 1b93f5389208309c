//! Convert: objects between the version that is stored and the version of the request.
//!
//! Conversions of built-in kinds and of CustomResourceDefinitions without a webhook are functions. With a webhook they
//! wait for it, and the outcome is cached next to the endpoint until the object changes. A function that the program of the
//! server has for a kind is treated like a webhook.
//!
//! Managed fields are computed over the versions in which fields were set, by code that cannot wait for a webhook. Where
//! it needs a conversion it records that in the [`PendingConversions`] of the request and fails; [`convert_pending`]
//! calls the webhook, and the computation is repeated.

use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    call::Call,
    endpoint::Endpoint,
    server::Inner,
    status::{ApiError, Result},
    storage::{DamagedObject, StoredObject, encode},
};

/// Converts a stored object to the version of the endpoint if that requires a webhook; else returns it unchanged.
pub(crate) async fn to_served_object(
    server: &Inner,
    endpoint: &Endpoint,
    object: Arc<StoredObject>,
) -> Result<Arc<StoredObject>> {
    if !endpoint.has_converter() {
        return Ok(object);
    }
    let mut served = to_served_objects(server, endpoint, vec![object]).boxed().await?;
    Ok(served.swap_remove(0))
}

/// Converts stored objects to the version of the endpoint if that requires a webhook; else returns them unchanged.
pub(crate) async fn to_served_objects(
    server: &Inner,
    endpoint: &Endpoint,
    mut objects: Vec<Arc<StoredObject>>,
) -> Result<Vec<Arc<StoredObject>>> {
    let Some(custom) = endpoint.custom().filter(|custom| custom.converter.is_some()) else { return Ok(objects) };
    let to = custom.api_version();
    let mut missing = Vec::new();
    for (at, object) in objects.iter_mut().enumerate() {
        if object.is_converted() || object.api_version() == to {
            continue;
        }
        match custom.conversions.find(object) {
            Some(known) => *object = known,
            None => missing.push(at),
        }
    }
    if missing.is_empty() {
        return Ok(objects);
    }
    let alive = endpoint.cache.snapshot().len();
    let values = missing.iter().map(|at| custom.prune_and_default_stored(objects[*at].to_value())).collect();
    let converted = custom.convert_objects(server, values, to).await?;
    for (at, mut value) in missing.into_iter().zip(converted) {
        let object = objects[at].converted(&encode(&mut value));
        let name = &objects[at].header.name;
        let object = object.map_err(|why| ApiError::internal(format!("failed to convert object {name:?}: {why}")))?;
        let object = Arc::new(object);
        custom.conversions.insert(&object, alive);
        objects[at] = object;
    }
    Ok(objects)
}

/// Returns the value of a stored object in the version of the endpoint.
pub(crate) async fn to_served_value(call: &Call<'_>, object: Arc<StoredObject>) -> Result<Value> {
    let served = to_served_object(call.server, call.endpoint, object).await?;
    match served.value() {
        Ok(value) if call.endpoint.is_served_as_stored(&served) => Ok(value),
        Ok(value) => Ok(call.endpoint.to_served_version(value)),
        Err(damage) => {
            let damaged = DamagedObject { revision: served.revision, damage };
            Err(ApiError::storage_read(call.endpoint.describe_damaged(&served.header.name, &damaged)))
        }
    }
}

/// Converts an object from the version of the endpoint to the storage version.
pub(super) async fn to_storage_version(server: &Inner, endpoint: &Endpoint, object: Value) -> Result<Value> {
    let Some(custom) = endpoint.custom().filter(|custom| custom.converter.is_some()) else {
        return Ok(endpoint.to_storage_version(object));
    };
    let to = &custom.stored_api_version;
    let mut converted = custom.convert_objects(server, vec![object], to).boxed().await?;
    Ok(custom.prune_and_default_stored(converted.swap_remove(0)))
}

/// The conversions that the managed fields of a request need.
#[derive(Default)]
pub(crate) struct PendingConversions(Mutex<Vec<PendingConversion>>);

struct PendingConversion {
    object: Value,
    to: String,
    /// `None` until the webhook was called.
    converted: Option<Value>,
}

/// Returns an object in another version, if that requires no webhook or the webhook was called before.
///
/// # Errors
/// Returns an error if the webhook has to be called first, by [`convert_pending`].
pub(super) fn convert_now(call: &Call<'_>, object: &Value, to: &str) -> Result<Value, String> {
    if object["apiVersion"] == to {
        return Ok(object.clone());
    }
    if !call.endpoint.has_converter() {
        let mut object = object.clone();
        object["apiVersion"] = to.into();
        return Ok(object);
    }
    let mut pending = call.conversions.0.lock();
    match pending.iter().find(|known| known.to == to && known.object == *object) {
        Some(PendingConversion { converted: Some(converted), .. }) => return Ok(converted.clone()),
        Some(_) => {}
        None => pending.push(PendingConversion { object: object.clone(), to: to.to_owned(), converted: None }),
    }
    Err("the object has to be converted first".to_owned())
}

/// Calls the webhook for every pending conversion; returns whether there were any.
pub(crate) async fn convert_pending(call: &Call<'_>) -> Result<bool> {
    let Some(custom) = call.endpoint.custom().filter(|custom| custom.converter.is_some()) else { return Ok(false) };
    let wanted: Vec<(usize, Value, String)> = {
        let pending = call.conversions.0.lock();
        let open = pending.iter().enumerate().filter(|(_, conversion)| conversion.converted.is_none());
        open.map(|(at, conversion)| (at, conversion.object.clone(), conversion.to.clone())).collect()
    };
    let any = !wanted.is_empty();
    for (at, object, to) in wanted {
        let mut converted = custom.convert_objects(call.server, vec![object], &to).boxed().await?;
        call.conversions.0.lock()[at].converted = Some(converted.swap_remove(0));
    }
    Ok(any)
}
