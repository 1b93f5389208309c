//! POST to a collection.

use http::StatusCode;
use serde_json::Value;
use windlass_store::Error as StoreError;

use crate::{
    admission::Operation,
    call::{Answer, Call},
    custom::Custom,
    meta,
    options::{WriteKind, WriteOptions},
    status::{ApiError, Result},
    storage::StoredObject,
    verbs::{
        update::Owners,
        write::{Written, check_object},
    },
    webhooks::{Options, Subject, name_of},
};

/// How often a generated name is tried anew when it is taken.
const NAME_ATTEMPTS: usize = 8;

/// POST of a new object.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
    let object = call.heavily(|| call.decode_body(options.field_validation))?;
    let written = create_object(call, object, &options, Owners::Track).await?;
    Ok(written.answer(StatusCode::CREATED))
}

/// Takes a decoded object through admission, strategy and validation into the store.
pub(crate) async fn create_object(
    call: &Call<'_>,
    mut object: Value,
    options: &WriteOptions,
    owners: Owners,
) -> Result<Written> {
    wipe_system_fields(&mut object);
    call.match_namespace(&mut object)?;
    if call.endpoint.custom().is_some_and(Custom::is_terminating) {
        let resource = &*call.endpoint.resource;
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&resource.plural, &resource.group, meta::text(&object, "name"), why));
    }
    if owners == Owners::Track {
        call.track_converted(options, None, &mut object).await?;
    }
    let name = name_of(call, &object).to_owned();
    let subject = Subject { operation: Operation::Create, name: &name, options: Options::Write(options) };
    if call.admit(&subject, &mut object, None).await? {
        wipe_system_fields(&mut object);
        call.match_namespace(&mut object)?;
    }
    let generated = meta::text(&object, "name").is_empty() && !meta::text(&object, "generateName").is_empty();
    if !generated {
        return create_once(call, object, &subject, options).await;
    }
    for _ in 1..NAME_ATTEMPTS {
        match create_once(call, object.clone(), &subject, options).await {
            Err(error) if error.reason == "AlreadyExists" => {}
            result => return result,
        }
    }
    create_once(call, object, &subject, options).await
}

async fn create_once(
    call: &Call<'_>,
    mut object: Value,
    subject: &Subject<'_>,
    options: &WriteOptions,
) -> Result<Written> {
    let endpoint = call.endpoint;
    let strategy = endpoint.strategy;
    let resource = &*endpoint.resource;
    if !meta::text(&object, "resourceVersion").is_empty() {
        return Err(ApiError::unexpected("resourceVersion should not be set on objects to be created"));
    }
    meta::set(&mut object, "uid", meta::new_uid());
    meta::set(&mut object, "creationTimestamp", meta::format_time(call.server.now()));
    if strategy.has_generation() {
        meta::set(&mut object, "generation", 1);
    }
    if meta::text(&object, "name").is_empty() && !meta::text(&object, "generateName").is_empty() {
        let base: String = meta::text(&object, "generateName").chars().take(58).collect();
        meta::set(&mut object, "name", base + &meta::name_suffix());
    }
    call.reset_status(&mut object);
    let allocation = call.allocate(&mut object, None, options.dry_run)?;
    strategy.prepare_for_create(&mut object);
    call.sign(&mut object);
    call.heavily(|| check_object(call, &object, None))?;
    for warning in strategy.warnings(&object, None) {
        call.warnings.add(warning);
    }
    call.validate_admission(subject, &object, None).await?;
    let charges = call.charge(Operation::Create, &object, None, options.dry_run).await?;

    let name = meta::text(&object, "name").to_owned();
    let namespace = meta::text(&object, "namespace").to_owned();
    let key = endpoint.key(&namespace, &name);
    let exists = || {
        let error = ApiError::already_exists(&resource.plural, &resource.group, &name);
        match endpoint.cache.get(&key) {
            Some(object) if meta::is_terminating(&object.to_value()) => {
                ApiError { message: format!("object is being deleted: {}", error.message), ..error }
            }
            _ => error,
        }
    };
    if options.dry_run {
        call.server.storage.fresh().await?;
        return match endpoint.cache.get(&key) {
            Some(_) => Err(exists()),
            None => Ok(Written::DryRun(object)),
        };
    }
    let bytes = crate::storage::encode(&mut call.stored(object).await?);
    match call.server.storage.store().create(&endpoint.store_key(&key), bytes.clone()).await {
        Ok(revision) => {
            call.note_written(revision);
            allocation.keep();
            let stored = StoredObject::parse(&bytes, revision).expect("a just encoded object must parse");
            Ok(Written::Stored(call.served(stored.into()).await?))
        }
        Err(error) => {
            call.give_back(charges).await;
            Err(if let StoreError::Exists { .. } = error { exists() } else { error.into() })
        }
    }
}

/// Drops what only the server may set.
fn wipe_system_fields(object: &mut Value) {
    let metadata = meta::metadata_mut(object);
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}
