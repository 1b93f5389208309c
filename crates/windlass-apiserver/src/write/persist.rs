//! Persist: compare-and-swaps in the store.

use std::sync::Arc;

use serde_json::Value;
use windlass_builtins::kinds::namespace;
use windlass_merge::apply::field_manager::keep_times_if_unchanged;
use windlass_store::{Error as StoreError, Revision};

use super::{
    convert,
    respond::Written,
    storable::{encode_readable, encode_storable},
};
use crate::{
    endpoint::Endpoint,
    meta,
    server::Inner,
    status::{ApiError, Result},
    storage::StoredObject,
};

/// An object that a write replaces.
pub(super) struct Existing {
    /// Its key in the store.
    pub(super) key: String,
    pub(super) stored: Arc<StoredObject>,
    /// Its value in the version of the endpoint.
    pub(super) value: Value,
}

/// Why an object was not stored.
pub(crate) enum PersistError {
    /// Another write was faster.
    Conflict,
    /// Trying again would not help.
    Failed(ApiError),
}

impl From<ApiError> for PersistError {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

/// The outcome of a successful attempt.
pub(super) struct Persisted {
    pub(super) written: Written,
    pub(super) effect: Effect,
}

/// What happened to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: a dry run, or an object that was stored exactly so already.
    Unchanged,
    /// The object was written.
    Written,
    /// The object was deleted, because the update completed its deletion.
    Removed,
}

/// Stores a new object.
pub(super) async fn create(
    server: &Inner,
    endpoint: &Endpoint,
    object: Value,
    dry_run: bool,
) -> Result<Persisted, PersistError> {
    let resource = &*endpoint.resource;
    let name = meta::text(&object, "name").to_owned();
    let key = endpoint.key(meta::text(&object, "namespace"), &name);
    let exists = || {
        let error = ApiError::already_exists(&resource.plural, &resource.group, &name);
        match endpoint.cache.get(&key) {
            Some(object) if meta::is_terminating(&object.to_value()) => {
                ApiError { message: format!("object is being deleted: {}", error.message), ..error }
            }
            _ => error,
        }
    };
    if dry_run {
        server.storage.fresh().await.map_err(ApiError::from)?;
        return match endpoint.cache.get(&key) {
            Some(_) => Err(exists().into()),
            None => Ok(Persisted { written: Written::DryRun(object), effect: Effect::Unchanged }),
        };
    }
    let mut object = convert::to_storage_version(server, endpoint, object).await?;
    let bytes = encode_storable(endpoint, &mut object)?;
    let revision = match server.storage.store().create(&endpoint.store_key(&key), bytes.clone()).await {
        Ok(revision) => revision,
        Err(StoreError::Exists { .. }) => return Err(exists().into()),
        Err(error) => return Err(ApiError::from(error).into()),
    };
    note_written(server, endpoint, revision);
    Ok(Persisted { written: Written::Stored(stored(endpoint, &bytes, revision)?), effect: Effect::Written })
}

/// Stores a changed object, or deletes it if the change completes its deletion. An object that is stored exactly so
/// already is not written, and keeps its resource version.
pub(super) async fn update(
    server: &Inner,
    endpoint: &Endpoint,
    existing: &Existing,
    mut object: Value,
    dry_run: bool,
) -> Result<Persisted, PersistError> {
    let Existing { key, stored: current, value: old } = existing;
    let removed = completes_deletion(endpoint, &object, old);
    keep_times_if_unchanged(old, &mut object);
    if dry_run {
        object["metadata"]["resourceVersion"] = current.revision.to_string().into();
        return Ok(Persisted { written: Written::DryRun(object), effect: Effect::Unchanged });
    }
    let store = server.storage.store();
    let mut object = convert::to_storage_version(server, endpoint, object).await?;
    let bytes = match removed {
        true => encode_readable(endpoint, &mut object)?,
        false => encode_storable(endpoint, &mut object)?,
    };
    let result = if removed {
        store.delete(key, current.revision).await
    } else if current.is_stored_as(&bytes) {
        return Ok(Persisted { written: Written::Stored(current.clone()), effect: Effect::Unchanged });
    } else {
        store.update(key, current.revision, bytes.clone()).await
    };
    let revision = match result {
        Ok(revision) => revision,
        Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => return Err(PersistError::Conflict),
        Err(error) => return Err(ApiError::from(error).into()),
    };
    note_written(server, endpoint, revision);
    // The writer that removes the last finalizer gets the last state of the object.
    let (revision, effect) = if removed { (current.revision, Effect::Removed) } else { (revision, Effect::Written) };
    Ok(Persisted { written: Written::Stored(stored(endpoint, &bytes, revision)?), effect })
}

/// Returns whether an update completes the deletion of an object, by removing its last finalizer. Namespaces have
/// finalizers in their spec as well.
fn completes_deletion(endpoint: &Endpoint, object: &Value, old: &Value) -> bool {
    let is_namespace = endpoint.is("", "namespaces");
    meta::is_terminating(object)
        && meta::finalizers(object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (!meta::finalizers(old).is_empty() || is_namespace)
        && (!is_namespace || namespace::may_be_removed(object))
}

/// Stores an object that is marked as being deleted, unless it is stored so already.
pub(super) async fn mark(
    server: &Inner,
    endpoint: &Endpoint,
    key: &str,
    current: &Arc<StoredObject>,
    marked: Value,
) -> Result<Arc<StoredObject>, PersistError> {
    let bytes = encode_readable(endpoint, &mut convert::to_storage_version(server, endpoint, marked).await?)?;
    if current.is_stored_as(&bytes) {
        return Ok(current.clone());
    }
    let revision = server.storage.store().update(key, current.revision, bytes.clone()).await;
    let revision = revision.map_err(|error| deletion_error(endpoint, current, error))?;
    note_written(server, endpoint, revision);
    stored(endpoint, &bytes, revision)
}

/// Deletes an object from the store; returns its last state at the revision of the deletion.
pub(super) async fn remove(
    server: &Inner,
    endpoint: &Endpoint,
    key: &str,
    current: &StoredObject,
) -> Result<Arc<StoredObject>, PersistError> {
    let revision = server.storage.store().delete(key, current.revision).await;
    let revision = revision.map_err(|error| deletion_error(endpoint, current, error))?;
    Ok(Arc::new(current.deleted_at(revision)))
}

/// Deletes a damaged object from the store, whatever its finalizers are.
pub(crate) async fn remove_damaged(
    server: &Inner,
    endpoint: &Endpoint,
    key: &str,
    revision: Revision,
) -> Result<(), PersistError> {
    match server.storage.store().delete(&endpoint.store_key(key), revision).await {
        Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
        Err(StoreError::Conflict { .. }) => Err(PersistError::Conflict),
        Err(error) => Err(ApiError::from(error).into()),
    }
}

/// Returns an object that was just stored.
fn stored(endpoint: &Endpoint, bytes: &[u8], revision: Revision) -> Result<Arc<StoredObject>, PersistError> {
    let parsed = StoredObject::parse(bytes, revision);
    let kind = &endpoint.resource.kind;
    Ok(parsed.map_err(|damage| ApiError::internal(format!("failed to read the {kind} just written: {damage}")))?.into())
}

fn deletion_error(endpoint: &Endpoint, current: &StoredObject, error: StoreError) -> PersistError {
    let resource = &*endpoint.resource;
    match error {
        StoreError::Conflict { .. } => PersistError::Conflict,
        StoreError::NotFound { .. } => {
            ApiError::not_found(&resource.plural, &resource.group, &current.header.name).into()
        }
        error => ApiError::from(error).into(),
    }
}

/// Notifies the endpoint that serves the resource now, if it was replaced since the request began, that an object was
/// written under the previous schema.
fn note_written(server: &Inner, endpoint: &Endpoint, revision: Revision) {
    if endpoint.custom().is_none() {
        return;
    }
    let resource = &*endpoint.resource;
    let registry = server.registry.load();
    let current = registry.versions_of(&resource.group, &resource.plural);
    let other = current.filter(|current| !Arc::ptr_eq(&current.stored, &endpoint.stored));
    other.filter_map(|current| current.custom()).for_each(|custom| custom.note_older_write(revision));
}
