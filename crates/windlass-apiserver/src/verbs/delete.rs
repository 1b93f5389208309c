//! DELETE of an object and of a collection.

use std::sync::Arc;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windlass_builtins::{kinds::namespace, strategy::Grace};
use windlass_store::Error as StoreError;

use crate::{
    admission::Operation,
    call::{Answer, Call, ListAnswer},
    definitions, meta,
    options::{DeleteOptions, ListOptions},
    selection::Selection,
    status::{ApiError, Result},
    storage::{StoredObject, encode},
    webhooks::{Options, Subject},
};

/// How often a deletion is computed anew after losing a race.
const ATTEMPTS: usize = 100;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion comes to.
enum Plan {
    /// The object goes now.
    Remove,
    /// The object is marked and stays until its finalizers or its grace period are done.
    Mark(Value),
    /// The object is marked, so that watchers see it go, and then goes.
    MarkAndRemove(Value),
    /// The object is being deleted already; nothing changes.
    Pending,
}

/// The result of a deletion.
pub(crate) enum Deleted {
    /// Gone; the object as it was last.
    Gone(Arc<StoredObject>),
    /// Still there, but on its way.
    Marked(Arc<StoredObject>),
    /// Dry run: the object as it would be.
    Imagined(Value),
}

/// DELETE of one object.
pub(crate) async fn delete(call: &Call<'_>) -> Result<Answer> {
    let options = call.delete_options()?;
    warn_about_dependents(call, &options);
    let deleted = delete_named(call, call.target.namespace, call.target.name, &options).await?;
    let waits = options.orphan_dependents == Some(false);
    let resource = &*call.endpoint.resource;
    Ok(match deleted {
        Deleted::Marked(object) => {
            let object = call.served(object).await?;
            let code = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
            Answer::Stored { code, object }
        }
        Deleted::Imagined(value) => Answer::Value { code: StatusCode::OK, value },
        Deleted::Gone(object) if call.endpoint.returns_deleted => Answer::Stored { code: StatusCode::OK, object },
        Deleted::Gone(object) => {
            let mut details =
                json!({"name": &*object.header.name, "kind": &*resource.plural, "uid": &*object.header.uid});
            if !resource.group.is_empty() {
                details["group"] = json!(&*resource.group);
            }
            let value = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Answer::Value { code: StatusCode::OK, value }
        }
    })
}

/// Some kinds leave their dependents behind unless the client says what it wants.
fn warn_about_dependents(call: &Call<'_>, options: &DeleteOptions) {
    if options.propagation.is_none() && options.orphan_dependents.is_none() {
        call.endpoint.strategy.deletion_warning().into_iter().for_each(|warning| call.warnings.add(warning.to_owned()));
    }
}

/// DELETE of everything a selector names; answers with what was deleted.
pub(crate) async fn delete_collection(call: &Call<'_>) -> Result<Answer> {
    ListOptions::parse(&call.query, false)?;
    let selection = Selection::of(call)?;
    let options = call.delete_options()?;
    warn_about_dependents(call, &options);
    let revision = call.server.storage.fresh().await?;
    let snapshot = call.endpoint.cache.snapshot();
    let selected: Vec<_> = match call.needs_converter() {
        true => selection.served(call, &snapshot, None).await?.into_iter().map(|(_, object)| object).collect(),
        false => selection.select(call.endpoint, &snapshot, None).map(|(_, object)| object.clone()).collect(),
    };
    for object in &selected {
        let header = &object.header;
        match delete_named(call, &header.namespace, &header.name, &options).await {
            Ok(_) => {}
            // Somebody else deleted it meanwhile: that is what was asked for.
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    let list =
        ListAnswer { objects: selected, revision: revision.0, continue_token: None, remaining: None, whole: None };
    Ok(Answer::List(list))
}

/// Deletes an object of the endpoint, or starts its deletion.
pub(crate) async fn delete_named(
    call: &Call<'_>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted> {
    let endpoint = call.endpoint;
    let resource = &*endpoint.resource;
    let key = endpoint.key(namespace, name);
    let store_key = endpoint.store_key(&key);
    let storage = &call.server.storage;
    for _ in 0..ATTEMPTS {
        storage.fresh().await?;
        let missing = || ApiError::not_found(&resource.plural, &resource.group, name);
        let current = endpoint.cache.get(&key).ok_or_else(missing)?;
        let object = call.read(current.clone()).await?;
        check_preconditions(call, options, &object, name)?;
        let subject =
            Subject { operation: Operation::Delete, name: call.target.name, options: Options::Delete(options) };
        call.validate_admission(&subject, &object, Some(&object)).await?;
        let plan = plan(call, object.clone(), options);
        if options.dry_run {
            return Ok(match plan {
                Plan::Mark(object) | Plan::MarkAndRemove(object) => Deleted::Imagined(object),
                Plan::Pending => Deleted::Marked(current),
                Plan::Remove => Deleted::Gone(current),
            });
        }
        let result = match plan {
            Plan::Pending => return Ok(Deleted::Marked(current)),
            Plan::Remove => {
                let result = storage.store().delete(&store_key, current.revision).await;
                result.map(|revision| Deleted::Gone(Arc::new(current.deleted_at(revision))))
            }
            Plan::Mark(marked) => {
                mark(call, &store_key, &current, call.stored(marked).await?).await.map(Deleted::Marked)
            }
            Plan::MarkAndRemove(marked) => match mark(call, &store_key, &current, call.stored(marked).await?).await {
                Ok(marked) => {
                    let result = storage.store().delete(&store_key, marked.revision).await;
                    result.map(|revision| Deleted::Gone(Arc::new(marked.deleted_at(revision))))
                }
                Err(error) => Err(error),
            },
        };
        match result {
            Ok(deleted) => {
                if let Deleted::Gone(_) = &deleted {
                    call.release(&object);
                }
                return Ok(deleted);
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::NotFound { .. }) => return Err(missing()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(call.modified(name))
}

/// Stores a marked object, unless nothing is new about it.
async fn mark(
    call: &Call<'_>,
    store_key: &str,
    current: &Arc<StoredObject>,
    mut stored: Value,
) -> Result<Arc<StoredObject>, StoreError> {
    let bytes = encode(&mut stored);
    if current.is_stored_as(&bytes) {
        return Ok(current.clone());
    }
    let revision = call.server.storage.store().update(store_key, current.revision, bytes.clone()).await?;
    call.note_written(revision);
    Ok(Arc::new(StoredObject::parse(&bytes, revision).expect("a just encoded object must parse")))
}

pub(crate) fn check_preconditions(call: &Call<'_>, options: &DeleteOptions, object: &Value, name: &str) -> Result<()> {
    let resource = &*call.endpoint.resource;
    let conflict = |why: String| Err(ApiError::conflict(&resource.kind, &resource.group, name, &why));
    if let Some(wanted) = &options.uid {
        let uid = meta::text(object, "uid");
        if wanted != uid {
            return conflict(format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
                 been deleted and then recreated"
            ));
        }
    }
    if let Some(wanted) = &options.resource_version {
        let version = meta::text(object, "resourceVersion");
        if wanted != version {
            return conflict(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({version}). The object might have been modified"
            ));
        }
    }
    Ok(())
}

fn plan(call: &Call<'_>, mut object: Value, options: &DeleteOptions) -> Plan {
    let now = call.server.now();
    if call.is_core("namespaces") {
        if namespace::begin_deletion(&mut object, now) {
            let finalizers = finalizers_for(call, &object, options);
            meta::set_finalizers(&mut object, finalizers);
        }
        if namespace::may_be_removed(&object) {
            return Plan::Remove;
        }
        return Plan::Mark(object);
    }
    if call.is_definition() && definitions::begin_deletion(&mut object, now) {
        return Plan::Mark(object);
    }
    let grace = match graceful(call, &mut object, options, now) {
        Graceful::Pending => return Plan::Pending,
        Graceful::Started(seconds) => Some(seconds),
        Graceful::No => None,
    };
    let finalizers = finalizers_for(call, &object, options);
    meta::set_finalizers(&mut object, finalizers.clone());
    match grace {
        Some(seconds) if seconds > 0 || !finalizers.is_empty() => Plan::Mark(object),
        None if !finalizers.is_empty() => {
            mark_as_deleting(&mut object, now);
            Plan::Mark(object)
        }
        Some(_) => Plan::MarkAndRemove(object),
        None => Plan::Remove,
    }
}

enum Graceful {
    No,
    Pending,
    Started(i64),
}

/// Starts or shortens a grace period, for kinds that have one.
fn graceful(call: &Call<'_>, object: &mut Value, options: &DeleteOptions, now: Timestamp) -> Graceful {
    let requested = options.grace_period.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Grace::Seconds(seconds) = call.endpoint.strategy.grace(object, requested) else { return Graceful::No };
    if !meta::is_terminating(object) {
        let end = now + SignedDuration::from_secs(seconds.clamp(0, i64::from(i32::MAX)));
        meta::set(object, "deletionTimestamp", meta::format_time(end));
        meta::set(object, "deletionGracePeriodSeconds", seconds);
        bump_generation(object);
        return Graceful::Started(seconds);
    }
    let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    if left == 0 {
        return Graceful::No;
    }
    match requested {
        Some(period) if period < left => {
            let was: Option<Timestamp> = meta::text(object, "deletionTimestamp").parse().ok();
            let end = was.map_or(now, |was| was - SignedDuration::from_secs(left - period));
            let (end, period) = if end < now { (now, period.min(1)) } else { (end, period) };
            meta::set(object, "deletionTimestamp", meta::format_time(end));
            meta::set(object, "deletionGracePeriodSeconds", period);
            Graceful::Started(period)
        }
        _ => Graceful::Pending,
    }
}

/// The finalizers that the propagation policy leaves to the garbage collector: the policy of the request, or what the
/// object says already, or what its kind has always done.
fn finalizers_for(call: &Call<'_>, object: &Value, options: &DeleteOptions) -> Vec<String> {
    let old = meta::finalizers(object);
    let said = || old.iter().find(|name| *name == ORPHAN || *name == FOREGROUND).map(String::as_str);
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation.as_deref()) {
        // Events come and go without anybody depending on them.
        _ if is_event(call) => (false, false),
        (Some(orphan), _) => (orphan, false),
        (None, Some("Orphan")) => (true, false),
        (None, Some("Foreground")) => (false, true),
        (None, Some(_)) => (false, false),
        (None, None) => match said() {
            Some(ORPHAN) => (true, false),
            Some(_) => (false, true),
            None => (call.endpoint.strategy.orphans_by_default(), false),
        },
    };
    if old.iter().any(|name| name == ORPHAN) == orphan && old.iter().any(|name| name == FOREGROUND) == foreground {
        return old;
    }
    let mut finalizers = old;
    finalizers.retain(|name| name != ORPHAN && name != FOREGROUND);
    if orphan {
        finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        finalizers.push(FOREGROUND.to_owned());
    }
    finalizers
}

fn is_event(call: &Call<'_>) -> bool {
    let resource = &*call.endpoint.resource;
    matches!((&*resource.group, &*resource.plural), ("" | "events.k8s.io", "events"))
}

fn mark_as_deleting(object: &mut Value, now: Timestamp) {
    if !meta::is_terminating(object) {
        bump_generation(object);
    }
    let later = meta::text(object, "deletionTimestamp").parse::<Timestamp>().is_ok_and(|end| end > now);
    if !meta::is_terminating(object) || later {
        meta::set(object, "deletionTimestamp", meta::format_time(now));
    }
    meta::set(object, "deletionGracePeriodSeconds", 0);
}

fn bump_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set(object, "generation", generation + 1);
    }
}
