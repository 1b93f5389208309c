//! Persist: compare-and-swaps in the store.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tracing::warn;
use windlass_builtins::kinds::namespace;
use windlass_store::{Error as StoreError, Revision};

use super::{
    convert,
    storable::{encode_readable, encode_storable},
};
use crate::{
    endpoint::Endpoint,
    meta,
    server::Inner,
    status::{ApiError, Result},
    storage::{Damage, StoredObject},
};

/// An object that a write replaces.
pub(super) struct Existing {
    /// Its key in the store.
    pub(super) key: String,
    pub(super) stored: Arc<StoredObject>,
    /// Its value in the version of the endpoint.
    pub(super) value: Value,
}

/// Reasons why an object was not stored.
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

/// The change that a write makes to the store.
pub(super) enum Change {
    /// None: a dry run.
    None,
    /// The object gets this content.
    Write(Bytes),
    /// The object is deleted, because the update completes its deletion. This is its last content.
    Remove(Bytes),
}

/// Effect of a deletion on the store.
pub(crate) enum Deletion {
    /// The object gets this content, which marks it as being deleted.
    Mark(Bytes),
    /// The object is deleted.
    Remove,
    /// The object gets this last content, for watchers, and is deleted.
    MarkAndRemove(Bytes),
}

/// Converts an object to the storage version and encodes it.
pub(super) async fn encode_for_storage(server: &Inner, endpoint: &Endpoint, object: &mut Value) -> Result<Bytes> {
    *object = convert::to_storage_version(server, endpoint, object.take()).await?;
    encode_storable(endpoint, object)
}

/// Converts an object that is being deleted to the storage version and encodes it. It may have any size.
pub(crate) async fn encode_for_deletion(server: &Inner, endpoint: &Endpoint, object: &mut Value) -> Result<Bytes> {
    *object = convert::to_storage_version(server, endpoint, object.take()).await?;
    encode_readable(endpoint, object)
}

/// Stores a new object, or only checks that it does not exist; returns the revision.
pub(super) async fn create(
    server: &Inner,
    endpoint: &Endpoint,
    object: &Value,
    change: &Change,
) -> Result<Option<Revision>, PersistError> {
    let resource = &*endpoint.resource;
    let name = meta::text(object, "name");
    let key = endpoint.key(meta::text(object, "namespace"), name);
    let exists = || {
        let error = ApiError::already_exists(&resource.plural, &resource.group, name);
        if !meta::text(object, "generateName").is_empty() {
            return error.not_unique();
        }
        match endpoint.cache.get(&key) {
            Some(object) if meta::is_terminating(&object.to_value()) => {
                ApiError { message: format!("object is being deleted: {}", error.message), ..error }
            }
            _ => error,
        }
    };
    let (Change::Write(bytes) | Change::Remove(bytes)) = change else {
        server.storage.fresh().await.map_err(ApiError::from)?;
        return if endpoint.cache.get(&key).is_some() { Err(exists().into()) } else { Ok(None) };
    };
    match server.storage.store().create(&endpoint.store_key(&key), bytes.clone()).await {
        Ok(revision) => {
            note_written(server, endpoint, revision);
            Ok(Some(revision))
        }
        Err(StoreError::Exists { .. }) => Err(exists().into()),
        Err(error) => Err(ApiError::from(error).into()),
    }
}

/// Stores a changed object, or deletes it; returns the revision.
pub(super) async fn update(
    server: &Inner,
    endpoint: &Endpoint,
    existing: &Existing,
    change: &Change,
) -> Result<Option<Revision>, PersistError> {
    let Existing { key, stored: current, .. } = existing;
    let store = server.storage.store();
    let result = match change {
        Change::None => return Ok(None),
        Change::Write(bytes) => store.update(key, current.revision, bytes.clone()).await,
        Change::Remove(_) => store.delete(key, current.revision).await,
    };
    match result {
        Ok(revision) => {
            note_written(server, endpoint, revision);
            if let Change::Remove(_) = change {
                remove_damaged_contents(server, endpoint, current).await;
            }
            Ok(Some(revision))
        }
        Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => Err(PersistError::Conflict),
        Err(error) => Err(ApiError::from(error).into()),
    }
}

/// Returns whether an update completes the deletion of an object, by removing its last finalizer.
pub(super) fn completes_deletion(endpoint: &Endpoint, object: &Value, old: &Value) -> bool {
    let in_spec = endpoint.facts.finalizers_in_spec;
    meta::is_terminating(object)
        && meta::finalizers(object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (!meta::finalizers(old).is_empty() || in_spec)
        && (!in_spec || namespace::may_be_removed(object))
}

/// Carries out a deletion; returns its revision.
pub(super) async fn delete(
    server: &Inner,
    endpoint: &Endpoint,
    key: &str,
    current: &StoredObject,
    deletion: &Deletion,
) -> Result<Revision, PersistError> {
    let (store, expected) = (server.storage.store(), current.revision);
    let result = match deletion {
        Deletion::Mark(marked) => store.update(key, expected, marked.clone()).await,
        Deletion::Remove => store.delete(key, expected).await,
        Deletion::MarkAndRemove(marked) => store.update_and_delete(key, expected, marked.clone()).await,
    };
    let revision = result.map_err(|error| deletion_error(endpoint, current, error))?;
    match deletion {
        Deletion::Mark(_) => note_written(server, endpoint, revision),
        Deletion::Remove | Deletion::MarkAndRemove(_) => remove_damaged_contents(server, endpoint, current).await,
    }
    Ok(revision)
}

/// Deletes a damaged object from the store, regardless of its finalizers.
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

/// Deletes the damaged objects of a removed namespace. Lists omit them, so nothing else deletes them. This happens only
/// after the removal, so that a namespace whose deletion fails keeps them. If the store fails now, such an object can
/// still be deleted by name, and is deleted with the next namespace of this name.
async fn remove_damaged_contents(server: &Inner, endpoint: &Endpoint, namespace: &StoredObject) {
    if !endpoint.is("", "namespaces") {
        return;
    }
    let prefix = format!("{}/", namespace.header.name);
    for cache in server.storage.caches() {
        for key in cache.damaged_keys(&prefix) {
            let Some(damaged) = cache.damaged(&key) else { continue };
            let key = format!("{}{key}", cache.prefix());
            warn!(key, damage = %damaged.damage, "deleting a damaged object with its namespace");
            match server.storage.store().delete(&key, damaged.revision).await {
                // It was changed or deleted in the meantime.
                Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Conflict { .. }) => {}
                Err(error) => warn!(key, %error, "failed to delete a damaged object of a namespace that was removed"),
            }
        }
    }
}

/// Returns an object that was just stored, with this value.
pub(super) fn stored(
    endpoint: &Endpoint,
    value: &Value,
    bytes: &[u8],
    revision: Revision,
) -> Result<Arc<StoredObject>, PersistError> {
    read_back(endpoint, StoredObject::written(bytes, value, revision))
}

/// Returns an object that was just stored.
pub(super) fn decode_stored(
    endpoint: &Endpoint,
    bytes: &[u8],
    revision: Revision,
) -> Result<Arc<StoredObject>, PersistError> {
    read_back(endpoint, StoredObject::parse(bytes, revision))
}

fn read_back(endpoint: &Endpoint, parsed: Result<StoredObject, Damage>) -> Result<Arc<StoredObject>, PersistError> {
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
