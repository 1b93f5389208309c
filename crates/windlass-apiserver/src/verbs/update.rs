//! PUT and PATCH: a new state computed from the old one, stored if nobody was faster.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use windlass_builtins::kinds::{namespace, persistent_volume};
use windlass_merge::apply::field_manager::keep_times_if_unchanged;
use windlass_schema::field::{ErrorKind, FieldError};
use windlass_store::Error as StoreError;

use crate::{
    admission::Operation,
    allocation::Allocation,
    call::{Answer, Call},
    meta,
    options::{WriteKind, WriteOptions, parse_resource_version},
    status::{ApiError, Result},
    storage::{StoredObject, encode},
    verbs::{
        create::create_object,
        write::{Written, check_object},
    },
    webhooks::{Options, Subject},
};

/// How often an update is computed anew after losing a race.
const ATTEMPTS: usize = 100;

/// PUT of an object or of a subresource that is a view of it.
pub(crate) async fn update(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(&call.query, WriteKind::Update)?;
    let mut object = call.decode_body(options.field_validation)?;
    call.match_name(&mut object)?;
    call.match_namespace(&mut object)?;
    if call.current().await?.is_none() && call.endpoint.strategy.creates_on_update() && call.subresource.is_none() {
        let written = create_object(call, object, &options, Owners::Track).await?;
        return Ok(written.answer(StatusCode::CREATED));
    }
    let stated = !matches!(meta::text(&object, "resourceVersion"), "" | "0");
    let race = if stated { Race::Fail } else { Race::Retry };
    let written = update_object(call, &options, race, Owners::Track, |old| {
        check_uid(call, &object, old)?;
        Ok(object.clone())
    });
    let written = written.await?;
    Ok(written.answer(StatusCode::OK))
}

/// Computes a new state of the addressed object from its present one until it can be stored.
///
/// `change` gets the present object in the endpoint's version and gives the wished one.
pub(crate) async fn update_object(
    call: &Call<'_>,
    options: &WriteOptions,
    race: Race,
    owners: Owners,
    mut change: impl FnMut(&Value) -> Result<Value>,
) -> Result<Written> {
    for _ in 0..ATTEMPTS {
        let current = call.current().await?.ok_or_else(|| call.not_found())?;
        let old = call.read(current.clone()).await?;
        let wished = loop {
            let wished = change(&old);
            if !call.convert_wanted().await? {
                break wished?;
            }
        };
        check_version(call, &wished, &current)?;
        match update_once(call, options, &current, &old, owners, wished).await {
            Err(Attempt::Lost) if race == Race::Fail => return Err(call.modified(call.target.name)),
            Err(Attempt::Lost) => {}
            Err(Attempt::Refused(error)) => return Err(error),
            Ok(written) => return Ok(written),
        }
    }
    Err(call.modified(call.target.name))
}

/// What to do when somebody else was faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Race {
    /// The client stated which version it means: tell it.
    Fail,
    /// The client means whatever there is: compute the change anew.
    Retry,
}

/// Who sees to the managed fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owners {
    /// What is new belongs to whoever writes it.
    Track,
    /// They are in the wished state already.
    Settled,
}

enum Attempt {
    Lost,
    Refused(ApiError),
}

impl From<ApiError> for Attempt {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

/// A uid that is sent along must be that of the object.
pub(crate) fn check_uid(call: &Call<'_>, wished: &Value, old: &Value) -> Result<()> {
    let resource = &*call.endpoint.resource;
    let (wanted, have) = (meta::text(wished, "uid"), meta::text(old, "uid"));
    if wanted.is_empty() || wanted == have {
        return Ok(());
    }
    let group = if call.endpoint.custom().is_some() { format!("{}/", resource.group) } else { String::new() };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {wanted}, UID in object meta: {have}",
        resource.plural,
        call.key()
    );
    Err(ApiError::conflict(&resource.plural, &resource.group, call.target.name, &why))
}

/// Checks the stated resource version.
fn check_version(call: &Call<'_>, wished: &Value, current: &StoredObject) -> Result<()> {
    let resource = &*call.endpoint.resource;
    let name = call.target.name;
    let version = meta::text(wished, "resourceVersion");
    if matches!(version, "" | "0") {
        if call.endpoint.strategy.allows_unconditional_update() {
            return Ok(());
        }
        let error = FieldError {
            kind: ErrorKind::Invalid,
            field: "metadata.resourceVersion".to_owned(),
            value: Some("0".to_owned()),
            detail: "must be specified for an update".to_owned(),
        };
        return Err(ApiError::invalid(&resource.plural, &resource.group, name, &vec![error]));
    }
    let version = parse_resource_version(version).map_err(|error| ApiError::unexpected(error.detail))?;
    if version != current.revision.0 {
        return Err(call.modified(name));
    }
    Ok(())
}

async fn update_once(
    call: &Call<'_>,
    options: &WriteOptions,
    current: &Arc<StoredObject>,
    old: &Value,
    owners: Owners,
    mut object: Value,
) -> Result<Written, Attempt> {
    let endpoint = call.endpoint;
    let strategy = endpoint.strategy;
    meta::carry(&mut object, old, "resourceVersion");
    if owners == Owners::Track {
        call.track_converted(options, Some(old), &mut object).await?;
    }
    let subject = Subject { operation: Operation::Update, name: call.target.name, options: Options::Write(options) };
    if call.admit(&subject, &mut object, Some(old)).await? {
        call.match_namespace(&mut object)?;
    }

    meta::carry(&mut object, old, "generation");
    let subresource = call.subresource.map(|sub| &*sub.name);
    let allocation = match subresource {
        None => call.allocate(&mut object, Some(old), options.dry_run)?,
        Some(_) => Allocation::none(),
    };
    match subresource {
        None => {
            call.keep_status(&mut object, old);
            strategy.prepare_for_update(&mut object, old);
        }
        Some(name) => {
            call.keep_all_but(name, &mut object, old);
            strategy.prepare_for_subresource_update(name, &mut object, old);
            if name == "status" && call.is_core("persistentvolumes") {
                persistent_volume::note_phase_change(&mut object, old, &meta::format_time(call.server.now()));
            }
        }
    }
    keep_system_fields(&mut object, old);
    if subresource.is_none() && strategy.has_generation() && strategy.changes_generation(&object, old) {
        meta::set(&mut object, "generation", meta::generation(old) + 1);
    }
    call.heavily(|| check_object(call, &object, Some(old)))?;
    for warning in strategy.warnings(&object, Some(old)) {
        call.warnings.add(warning);
    }
    call.validate_admission(&subject, &object, Some(old)).await?;
    let charges = call.charge(Operation::Update, &object, Some(old), options.dry_run).await?;

    let gone = meta::is_terminating(&object)
        && meta::finalizers(&object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (!meta::finalizers(old).is_empty() || call.is_core("namespaces"))
        && (!call.is_core("namespaces") || namespace::may_be_removed(&object));
    if options.dry_run {
        keep_times_if_unchanged(old, &mut object);
        object["metadata"]["resourceVersion"] = current.revision.to_string().into();
        return Ok(Written::DryRun(object));
    }
    keep_times_if_unchanged(old, &mut object);
    let key = endpoint.store_key(&call.key());
    let store = call.server.storage.store();
    let mut stored = call.stored(object).await?;
    let bytes = encode(&mut stored);
    let result = if gone {
        store.delete(&key, current.revision).await
    } else if current.is_stored_as(&bytes) {
        // Nothing changed, so nothing is written and the resource version stays.
        return Ok(Written::Stored(call.served(current.clone()).await?));
    } else {
        store.update(&key, current.revision, bytes.clone()).await
    };
    match result {
        Ok(revision) => {
            call.note_written(revision);
            allocation.keep();
            if gone {
                call.release(old);
            }
            // Who removes the last finalizer sees the object go as it was last.
            let revision = if gone { current.revision } else { revision };
            let stored = StoredObject::parse(&bytes, revision).expect("a just encoded object must parse");
            Ok(Written::Stored(call.served(stored.into()).await?))
        }
        Err(error) => {
            call.give_back(charges).await;
            Err(match error {
                StoreError::Conflict { .. } | StoreError::NotFound { .. } => Attempt::Lost,
                error => Attempt::Refused(error.into()),
            })
        }
    }
}

/// What no update may change.
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
