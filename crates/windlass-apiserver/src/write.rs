//! The write path. Every create, update, patch and apply runs these stages in this order, one file per stage:
//!
//! | stage | create | update, patch, apply |
//! |---|---|---|
//! | [`decode`] | body to object, with defaults | body to object, or the patch applied to the live object |
//! | [`preconditions`] | namespace | name, namespace, uid, resource version |
//! | [`convert`] | | the live object to the version of the request |
//! | [`managed_fields`] | every field belongs to the writer | changed fields belong to the writer |
//! | [`mutate`] | mutating plugins and webhooks | same |
//! | [`defaults`] | identity, name, status, allocations ([`allocate`]) | restores fields that the request may not change |
//! | [`validate`] | metadata, kind or schema; warnings | same, also against the live object |
//! | [`validating_admission`] | validating plugins and webhooks | same |
//! | [`quota`] \* | charges the quotas of the namespace | same |
//! | [`persist`] \* | converts to the storage version, checks ([`storable`]), creates | same, with compare-and-swap |
//! | [`respond`] | converts to the version of the request | same |
//!
//! Patches compute managed fields where they compute the desired object, in the closure that [`update_object`] runs. An
//! apply to an object that does not exist is a create. A deletion ([`crate::verbs::delete`]) has no object to decode: it
//! runs preconditions, validating admission and [`commit_deletion`].
//!
//! Stages marked with \* must not be half-done: a charged quota without an object, an object whose cluster IP was
//! released, or a deletion that stops between its two writes is an inconsistency. They run as one unit, [`commit`] or
//! [`commit_deletion`]. Both own their inputs, so the unit can outlive the request that started it. All earlier stages
//! only read, except that [`allocate`] reserves cluster IPs, which are released when the reservation is dropped.

mod allocate;
pub(crate) mod convert;
pub(crate) mod decode;
mod defaults;
pub(crate) mod managed_fields;
mod mutate;
mod persist;
pub(crate) mod preconditions;
mod quota;
mod respond;
mod storable;
mod validate;
pub(crate) mod validating_admission;

use std::sync::Arc;

use serde_json::Value;
use windlass_builtins::quota::Write;

use self::{
    allocate::Allocation,
    persist::{Effect, Existing, Persisted},
    quota::Charge,
};
pub(crate) use self::{
    allocate::Allocator,
    managed_fields::ManagedFieldsMode,
    persist::{PersistError, remove_damaged},
    quota::{MANAGER, QuotaLocks},
    respond::Written,
};
use crate::{
    admission::Operation,
    call::Call,
    endpoint::Endpoint,
    meta,
    options::WriteOptions,
    server::Inner,
    status::Result,
    storage::StoredObject,
    webhooks::{Options, Subject, name_of},
};

/// The number of names that are generated before a conflict is reported.
const NAME_ATTEMPTS: usize = 8;

/// The number of times an update is computed before a conflict is reported.
const UPDATE_ATTEMPTS: usize = 100;

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
    defaults::remove_system_fields(&mut object);
    preconditions::match_namespace(call, &mut object)?;
    preconditions::check_not_terminating(call, &object)?;
    if mode == ManagedFieldsMode::Track {
        managed_fields::track_with_webhooks(call, options, None, &mut object).await?;
    }
    let name = name_of(call, &object).to_owned();
    let subject = Subject { operation: Operation::Create, name: &name, options: Options::Write(options) };
    if mutate::mutate(call, &subject, &mut object, None).await? {
        defaults::remove_system_fields(&mut object);
        preconditions::match_namespace(call, &mut object)?;
    }
    if defaults::needs_generated_name(&object) {
        for _ in 1..NAME_ATTEMPTS {
            match create_named(call, object.clone(), &subject, options).await {
                Err(error) if error.reason == "AlreadyExists" => {}
                result => return result,
            }
        }
    }
    create_named(call, object, &subject, options).await
}

/// Runs the stages of a create that depend on the name, which may be generated.
async fn create_named(
    call: &Call<'_>,
    mut object: Value,
    subject: &Subject<'_>,
    options: &WriteOptions,
) -> Result<Written> {
    let allocation = defaults::prepare_for_create(call, &mut object, options.dry_run)?;
    call.run_blocking(|| validate::validate(call.endpoint, call.subresource, &object, None, &call.warnings))?;
    validate::warn(call.endpoint, &object, None, &call.warnings);
    validating_admission::validate(call, subject, &object, None).await?;
    let committed = commit(Commit::new(call, object, None, allocation, options.dry_run)).await;
    match committed {
        Ok(written) => written.into_served_version(call).await,
        Err(PersistError::Failed(error)) => Err(error),
        Err(PersistError::Conflict) => Err(call.modified(call.target.name)),
    }
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
        match update_once(call, options, current, old, mode, desired).await {
            Ok(written) => return Ok(written),
            Err(PersistError::Conflict) if on_conflict == OnConflict::Retry => {}
            Err(PersistError::Conflict) => break,
            Err(PersistError::Failed(error)) => return Err(error),
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
) -> Result<Written, PersistError> {
    meta::carry(&mut object, &old, "resourceVersion");
    if mode == ManagedFieldsMode::Track {
        managed_fields::track_with_webhooks(call, options, Some(&old), &mut object).await?;
    }
    let subject = Subject { operation: Operation::Update, name: call.target.name, options: Options::Write(options) };
    if mutate::mutate(call, &subject, &mut object, Some(&old)).await? {
        preconditions::match_namespace(call, &mut object)?;
    }
    let allocation = defaults::prepare_for_update(call, &mut object, &old, options.dry_run)?;
    call.run_blocking(|| validate::validate(call.endpoint, call.subresource, &object, Some(&old), &call.warnings))?;
    validate::warn(call.endpoint, &object, Some(&old), &call.warnings);
    validating_admission::validate(call, &subject, &object, Some(&old)).await?;
    let existing = Existing { key: call.endpoint.store_key(&call.key()), stored: current, value: old };
    let written = commit(Commit::new(call, object, Some(existing), allocation, options.dry_run)).await?;
    Ok(written.into_served_version(call).await?)
}

/// A validated object and everything that is needed to store it.
struct Commit {
    server: Arc<Inner>,
    endpoint: Arc<Endpoint>,
    namespace: String,
    subresource: String,
    object: Value,
    /// The object that is replaced; `None` for a create.
    existing: Option<Existing>,
    allocation: Allocation,
    dry_run: bool,
}

impl Commit {
    fn new(call: &Call<'_>, object: Value, existing: Option<Existing>, allocation: Allocation, dry_run: bool) -> Self {
        Self {
            server: call.server.clone(),
            endpoint: call.endpoint.clone(),
            namespace: call.target.namespace.to_owned(),
            subresource: call.target.subresource.to_owned(),
            object,
            existing,
            allocation,
            dry_run,
        }
    }
}

/// Charges quotas and stores the object; if that fails, refunds the charges and releases the allocation.
///
/// This must run to its end once it has begun. It borrows nothing from the request, so that a task of its own can run it.
async fn commit(commit: Commit) -> Result<Written, PersistError> {
    let Commit { server, endpoint, namespace, subresource, object, existing, allocation, dry_run } = commit;
    let old = existing.as_ref().map(|existing| &existing.value);
    let write = Write { subresource: &subresource, object: &object, old };
    let charge = Charge { server: &server, endpoint: &endpoint, namespace: &namespace, write };
    let charges = quota::charge(charge, dry_run).await?;
    let persisted = match &existing {
        None => persist::create(&server, &endpoint, object, dry_run).await,
        Some(existing) => persist::update(&server, &endpoint, existing, object, dry_run).await,
    };
    match persisted {
        Ok(Persisted { written, effect }) => {
            if effect != Effect::Unchanged {
                allocation.keep();
            }
            if let (Effect::Removed, Some(existing)) = (effect, &existing) {
                allocate::release(&server, &endpoint, &existing.value);
            }
            Ok(written)
        }
        Err(error) => {
            quota::refund(&server, &namespace, charges).await;
            Err(error)
        }
    }
}

/// A deletion that was decided on, and everything that is needed to carry it out.
pub(crate) struct DeletionCommit {
    pub(crate) server: Arc<Inner>,
    pub(crate) endpoint: Arc<Endpoint>,
    /// The object's key in the store.
    pub(crate) key: String,
    pub(crate) current: Arc<StoredObject>,
    /// The object's value, whose allocations are released with it.
    pub(crate) object: Value,
    /// The object marked as being deleted, if it is stored so first.
    pub(crate) marked: Option<Value>,
    /// Whether the object is removed from the store.
    pub(crate) remove: bool,
}

/// Marks an object as being deleted, removes it, or both; returns its last state.
///
/// This must run to its end once it has begun. It borrows nothing from the request, so that a task of its own can run it.
pub(crate) async fn commit_deletion(deletion: DeletionCommit) -> Result<Arc<StoredObject>, PersistError> {
    let DeletionCommit { server, endpoint, key, mut current, object, marked, remove } = deletion;
    if let Some(marked) = marked {
        current = persist::mark(&server, &endpoint, &key, &current, marked).await?;
    }
    if remove {
        current = persist::remove(&server, &endpoint, &key, &current).await?;
        allocate::release(&server, &endpoint, &object);
    }
    Ok(current)
}
