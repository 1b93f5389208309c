//! The write path. Every create, update, patch and apply runs these stages in this order, one file per stage:
//!
//! | stage | create | update, patch, apply |
//! |---|---|---|
//! | [`decode`] | body to object, with defaults | body to object, or the patch applied to the live object |
//! | [`preconditions`] | namespace | name, namespace, uid, resource version |
//! | [`convert`] | | the live object to the version of the request |
//! | [`managed_fields`] | every field belongs to the writer | changed fields belong to the writer |
//! | [`mutate`] | mutating plugins, policies and webhooks; plugins check the user's permissions for the result | same |
//! | [`defaults`] | identity, name, status, allocations ([`allocate`]) | restores fields that the request may not change |
//! | [`validate`] | metadata, kind or schema; fields that the user may not set; warnings | the same, and against the live object |
//! | [`create_permission`] | of a PUT or an apply that creates | |
//! | [`validating_admission`] | validating plugins, policies and webhooks | same |
//! | [`convert`], [`storable`] | to the storage version, which is checked | same |
//! | [`quota`] \* | charges the quotas of the namespace | same |
//! | [`persist`] \* | creates | compare-and-swap, or removal with the last finalizer |
//! | [`respond`] | converts to the version of the request | same |
//!
//! Patches compute managed fields where they compute the desired object, in the closure that [`update_object`] runs. An
//! apply to an object that does not exist is a create. A deletion ([`crate::verbs::delete`]) has no object to decode: it
//! runs preconditions, validating admission and [`commit_deletion`].
//!
//! Stages marked with \* must not be half-done: a charged quota without an object, or an object whose cluster IP was
//! released, is an inconsistency. They run as one unit, [`commit`] or [`commit_deletion`], in a task of its own
//! ([`unit`]), which completes whatever happens to the request. All earlier stages only read, except that [`allocate`]
//! reserves cluster IPs, which are released when the reservation is dropped. If other servers may write to the store, a
//! unit begins with the [`claims`] of what was reserved; if another server has one of the values, the write starts over.

pub(crate) mod allocate;
pub(crate) mod claims;
pub(crate) mod convert;
mod create_permission;
pub(crate) mod decode;
mod defaults;
pub(crate) mod managed_fields;
mod mutate;
mod persist;
pub(crate) mod preconditions;
mod quota;
mod respond;
mod storable;
mod unit;
mod validate;
pub(crate) mod validating_admission;

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use serde_json::Value;
use windlass_builtins::quota::Write;
use windlass_merge::apply::field_manager::keep_times_if_unchanged;

use self::{
    allocate::Allocation,
    claims::{ClaimError, Claims},
    persist::{Change, Existing},
    quota::Charge,
};
pub(crate) use self::{
    allocate::Allocator,
    defaults::remove_system_fields,
    managed_fields::ManagedFieldsMode,
    mutate::{mutate, run_plugins},
    persist::{Deletion, PersistError, encode_for_deletion, remove_damaged},
    quota::{MANAGER, QuotaLocks},
    respond::Written,
    unit::{Running, Units},
};
use crate::{
    admission::Operation,
    call::Call,
    endpoint::Endpoint,
    meta,
    options::WriteOptions,
    policies,
    server::Inner,
    status::{ApiError, Result},
    storage::StoredObject,
    webhooks::{Options, Subject, name_of},
};

/// The number of names that are generated before a conflict is reported.
const NAME_ATTEMPTS: usize = 8;

/// The number of times an update is computed before a conflict is reported.
const UPDATE_ATTEMPTS: usize = 100;

/// The number of times that other values are allocated because another server has the first ones.
const CLAIM_ATTEMPTS: usize = 32;

/// Reasons why an object was not stored.
enum CommitError {
    /// Not because of the values that were allocated.
    Persist(PersistError),
    /// Another server has these values. Those of the next attempt must differ, so their reservation is kept until then.
    Taken(Allocation),
}

impl From<ApiError> for CommitError {
    fn from(error: ApiError) -> Self {
        Self::Persist(error.into())
    }
}

/// The reaction to a write that was faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// Fail: the client has stated the resource version that it means.
    Fail,
    /// Compute the change again from the new state.
    Retry,
}

/// Runs the stages of a create for a decoded object.
pub(crate) async fn create_object(
    call: &Call<'_>,
    mut object: Value,
    options: &WriteOptions,
    mode: ManagedFieldsMode,
) -> Result<Written> {
    remove_system_fields(&mut object);
    preconditions::match_namespace(call, &mut object)?;
    preconditions::check_not_terminating(call, &object)?;
    let shared = call.endpoint.strategy.shared_labels(&object).filter(|_| call.subresource.is_none());
    let has_shared = shared.is_some();
    if let Some(labels) = shared {
        meta::metadata_mut(&mut object).insert("labels".to_owned(), labels.into());
    }
    if mode == ManagedFieldsMode::Track {
        managed_fields::track_with_webhooks(call, options, None, &mut object).boxed().await?;
    }
    let name = name_of(call, &object).to_owned();
    let subject = Subject { operation: Operation::Create, name: &name, options: Options::Write(options) };
    if mutate(call, &subject, &mut object, None).boxed().await? {
        remove_system_fields(&mut object);
        preconditions::match_namespace(call, &mut object)?;
    } else if has_shared {
        meta::metadata_mut(&mut object).remove("labels");
    }
    if defaults::needs_generated_name(&object) {
        for _ in 1..NAME_ATTEMPTS {
            match create_named(call, object.clone(), &subject, options).boxed().await {
                Err(error) if error.reason == "AlreadyExists" => {}
                result => return result,
            }
        }
    }
    create_named(call, object, &subject, options).boxed().await
}

/// Runs the stages of a create that depend on the name, which may be generated.
async fn create_named(
    call: &Call<'_>,
    object: Value,
    subject: &Subject<'_>,
    options: &WriteOptions,
) -> Result<Written> {
    let failed = |error| match error {
        PersistError::Failed(error) => error,
        PersistError::Conflict => call.modified(call.target.name),
    };
    let mut taken = Vec::new();
    // Other kinds are not copied.
    while call.is_core("services") && taken.len() < CLAIM_ATTEMPTS {
        match create_once(call, object.clone(), subject, options).await {
            Ok(written) => return Ok(written),
            Err(CommitError::Taken(values)) => taken.push(values),
            Err(CommitError::Persist(error)) => return Err(failed(error)),
        }
    }
    create_once(call, object, subject, options).await.map_err(|error| match error {
        CommitError::Taken(_) => allocate::too_many_attempts(),
        CommitError::Persist(error) => failed(error),
    })
}

/// Runs the stages of a create that depend on the name, with one set of allocated values.
async fn create_once(
    call: &Call<'_>,
    mut object: Value,
    subject: &Subject<'_>,
    options: &WriteOptions,
) -> Result<Written, CommitError> {
    let allocation = defaults::prepare_for_create(call, &mut object, options.dry_run)?;
    let forbidden = validate::forbidden_fields(call, subject, &object, None).await;
    call.run_blocking(|| validate::validate(call, &object, None, forbidden))?;
    validate::warn(call.endpoint, &object, None, &call.warnings);
    policies::check_params_permission(call, &object, None).boxed().await?;
    create_permission::check(call).await?;
    // Validating admission knows a generated name, mutating admission does not.
    let name = if subject.name.is_empty() { meta::text(&object, "name") } else { subject.name };
    validating_admission::validate(call, &Subject { name, ..*subject }, &object, None).boxed().await?;
    let change = if options.dry_run {
        Change::None
    } else {
        preconditions::check_unversioned(&object)?;
        Change::Write(persist::encode_for_storage(call.server, call.endpoint, &mut object).await?)
    };
    let commit = Commit { change, allocation, ..Commit::new(call, object) };
    Ok(commit.run().boxed().await?.into_served_version(call).await?)
}

/// Runs the stages of an update, until the object is stored.
///
/// `change` gets the live object in the version of the endpoint and returns the desired one.
pub(crate) async fn update_object(
    call: &Call<'_>,
    options: &WriteOptions,
    on_conflict: OnConflict,
    mode: ManagedFieldsMode,
    mut change: impl FnMut(&Value) -> Result<Value>,
) -> Result<Written> {
    let mut taken = Vec::new();
    for _ in 0..UPDATE_ATTEMPTS {
        let current = call.current().await?.ok_or_else(|| call.not_found())?;
        let old = convert::to_served_value(call, current.clone()).await?;
        let desired = loop {
            let desired = change(&old);
            if !convert::convert_pending(call).await? {
                break desired?;
            }
        };
        preconditions::check_resource_version(call, &desired, &current)?;
        match update_once(call, options, current, old, mode, desired).boxed().await {
            Ok(written) => return Ok(written),
            Err(CommitError::Taken(values)) => taken.push(values),
            Err(CommitError::Persist(PersistError::Conflict)) if on_conflict == OnConflict::Retry => {}
            Err(CommitError::Persist(PersistError::Conflict)) => break,
            Err(CommitError::Persist(PersistError::Failed(error))) => return Err(error),
        }
    }
    Err(call.modified(call.target.name))
}

/// Runs the stages of an update from the desired object on.
async fn update_once(
    call: &Call<'_>,
    options: &WriteOptions,
    current: Arc<StoredObject>,
    old: Value,
    mode: ManagedFieldsMode,
    mut object: Value,
) -> Result<Written, CommitError> {
    meta::carry(&mut object, &old, "resourceVersion");
    if mode == ManagedFieldsMode::Track {
        managed_fields::track_with_webhooks(call, options, Some(&old), &mut object).boxed().await?;
    }
    let subject = Subject { operation: Operation::Update, name: call.target.name, options: Options::Write(options) };
    if mutate(call, &subject, &mut object, Some(&old)).boxed().await? {
        preconditions::match_namespace(call, &mut object)?;
    }
    let allocation = defaults::prepare_for_update(call, &mut object, &old, options.dry_run)?;
    let forbidden = validate::forbidden_fields(call, &subject, &object, Some(&old)).await;
    call.run_blocking(|| validate::validate(call, &object, Some(&old), forbidden))?;
    if call.subresource.is_none() {
        validate::warn(call.endpoint, &object, Some(&old), &call.warnings);
    }
    policies::check_params_permission(call, &object, Some(&old)).boxed().await?;
    validating_admission::validate(call, &subject, &object, Some(&old)).boxed().await?;
    let removed = persist::completes_deletion(call.endpoint, &object, &old);
    keep_times_if_unchanged(&old, &mut object);
    let change = if options.dry_run {
        object["metadata"]["resourceVersion"] = current.revision.to_string().into();
        Change::None
    } else if removed {
        Change::Remove(persist::encode_for_deletion(call.server, call.endpoint, &mut object).await?)
    } else {
        Change::Write(persist::encode_for_storage(call.server, call.endpoint, &mut object).await?)
    };
    if matches!(&change, Change::Write(bytes) if current.is_stored_as(bytes)) {
        return Ok(Written::Stored(current).into_served_version(call).await?);
    }
    let existing = Some(Existing { key: call.endpoint.store_key(&call.key()), stored: current, value: old });
    let commit = Commit { change, existing, allocation, ..Commit::new(call, object) };
    Ok(commit.run().boxed().await?.into_served_version(call).await?)
}

/// A validated object and everything that is needed to store it.
struct Commit {
    server: Arc<Inner>,
    endpoint: Arc<Endpoint>,
    namespace: String,
    subresource: String,
    /// The object: in the storage version, unless this is a dry run.
    object: Value,
    change: Change,
    /// The object that is replaced; `None` for a create.
    existing: Option<Existing>,
    allocation: Allocation,
}

impl Commit {
    /// Returns the commit of a dry run.
    fn new(call: &Call<'_>, object: Value) -> Self {
        Self {
            server: call.server.clone(),
            endpoint: call.endpoint.clone(),
            namespace: call.target.namespace.to_owned(),
            subresource: call.target.subresource.to_owned(),
            object,
            change: Change::None,
            existing: None,
            allocation: Allocation::none(),
        }
    }

    /// Stores the object in a task of its own.
    async fn run(self) -> Result<Written, CommitError> {
        let server = self.server.clone();
        server.storage.check_current()?;
        server.units.run(|running| commit(self, running)).await
    }
}

/// Charges quotas, claims the allocated values and stores the object; if that fails, refunds the charges and releases
/// the claims. The allocation is kept until the caches have the object, and ends if it was not stored.
async fn commit(commit: Commit, _running: Running) -> Result<Written, CommitError> {
    let Commit { server, endpoint, namespace, subresource, object, change, existing, allocation } = commit;
    let old = existing.as_ref().map(|existing| &existing.value);
    let write = Write { subresource: &subresource, object: &object, old };
    let charge = Charge { server: &server, endpoint: &endpoint, namespace: &namespace, write };
    let charges = quota::charge(charge, matches!(change, Change::None)).await?;
    let claims = match Claims::make(&server, &allocation, &object).await {
        Ok(claims) => claims,
        Err(error) => {
            quota::refund(&server, &namespace, charges).await;
            return Err(match error {
                ClaimError::Taken(values) => CommitError::Taken(allocation.keep_only(&values)),
                ClaimError::Failed(error) => error.into(),
            });
        }
    };
    let persisting = async {
        claims.check_in_time()?;
        match &existing {
            None => persist::create(&server, &endpoint, &object, &change).await,
            Some(existing) => persist::update(&server, &endpoint, existing, &change).await,
        }
    };
    // A panic counts as a failure: if the object was stored anyway, the control loop counts it again.
    let persisted = AssertUnwindSafe(persisting).catch_unwind().await;
    let revision = match persisted.unwrap_or_else(|_| Err(unit::unfinished(true).into())) {
        Ok(Some(revision)) => revision,
        Ok(None) => return Ok(Written::DryRun(object)),
        Err(error) => {
            claims.settle(&server.storage, &error).await;
            quota::refund(&server, &namespace, charges).await;
            return Err(CommitError::Persist(error));
        }
    };
    if let Some(existing) = existing.as_ref().filter(|_| endpoint.is("", "services")) {
        let after = Some(&object).filter(|_| !matches!(change, Change::Remove(_)));
        claims::release_unused(&server, &existing.value, after).await;
    }
    allocation.end_after(&server.storage, revision).await;
    let (bytes, shown) = match (change, existing) {
        (Change::None, _) => return Ok(Written::DryRun(object)),
        // The writer that removes the last finalizer gets the last state of the object.
        (Change::Remove(bytes), Some(existing)) => (bytes, existing.stored.revision),
        (Change::Remove(bytes) | Change::Write(bytes), _) => (bytes, revision),
    };
    Ok(Written::Stored(persist::stored(&endpoint, &object, &bytes, shown).map_err(CommitError::Persist)?))
}

/// A deletion that was decided on, and everything that is needed to carry it out.
pub(crate) struct DeletionCommit {
    pub(crate) server: Arc<Inner>,
    pub(crate) endpoint: Arc<Endpoint>,
    /// The object's key in the store.
    pub(crate) key: String,
    pub(crate) current: Arc<StoredObject>,
    pub(crate) deletion: Deletion,
}

impl DeletionCommit {
    /// Marks the object as being deleted, removes it, or both, in a task of its own; returns its last state.
    pub(crate) async fn run(self) -> Result<Arc<StoredObject>, PersistError> {
        let server = self.server.clone();
        server.storage.check_current()?;
        server.units.run(|running| commit_deletion(self, running)).await
    }
}

async fn commit_deletion(deletion: DeletionCommit, _running: Running) -> Result<Arc<StoredObject>, PersistError> {
    let DeletionCommit { server, endpoint, key, current, deletion } = deletion;
    let revision = persist::delete(&server, &endpoint, &key, &current, &deletion).await?;
    if endpoint.is("", "services") && !matches!(deletion, Deletion::Mark(_)) {
        claims::release_unused(&server, &current.to_value(), None).await;
    }
    match deletion {
        Deletion::Mark(marked) | Deletion::MarkAndRemove(marked) => {
            persist::decode_stored(&endpoint, &marked, revision)
        }
        Deletion::Remove => Ok(Arc::new(current.deleted_at(revision))),
    }
}
