//! DELETE of an object and of a collection.

mod outcome;

use std::sync::Arc;

use futures_util::FutureExt as _;
use http::StatusCode;
use serde_json::{Value, json};
use tracing::warn;
use windlass_builtins::resource::Resource;

use self::outcome::Outcome;
use crate::{
    admission::Operation,
    call::{Answer, Call},
    meta,
    options::{DeleteOptions, ListOptions},
    selection::Selection,
    status::{ApiError, Result},
    storage::StoredObject,
    verb::Verb,
    verbs::read::Start,
    webhooks::{Options, Subject},
    write::{
        Deletion, DeletionCommit, PersistError, convert, decode::delete_options, encode_for_deletion, remove_damaged,
        validating_admission,
    },
};

/// The number of times a deletion is computed before a conflict is reported.
const ATTEMPTS: usize = 100;

/// The result of a deletion.
pub(crate) enum Deleted {
    /// The object was removed; its last state.
    Removed(Arc<StoredObject>),
    /// The object is marked as being deleted and still exists.
    Marked(Arc<StoredObject>),
    /// The object was damaged and was removed without its finalizers.
    Purged,
    /// The object that a dry run would have marked.
    DryRun(Value),
}

/// Deletes an object.
pub(crate) async fn delete(call: &Call<'_>) -> Result<Answer> {
    let options = delete_options(call)?;
    reject_undeletable(call)?;
    warn_about_dependents(call, &options);
    let deleted = delete_named(call, call.target.namespace, call.target.name, &options).await?;
    let waits = options.orphan_dependents == Some(false);
    let resource = &*call.endpoint.resource;
    Ok(match deleted {
        Deleted::Marked(object) => {
            let object = convert::to_served_object(call.server, call.endpoint, object).await?;
            let code = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
            Answer::Stored { code, object }
        }
        Deleted::DryRun(value) => Answer::Value { code: StatusCode::OK, value },
        Deleted::Removed(object) if call.endpoint.returns_deleted => Answer::Stored { code: StatusCode::OK, object },
        Deleted::Removed(object) => {
            success(resource, json!({"name": &*object.header.name, "uid": &*object.header.uid}))
        }
        Deleted::Purged => success(resource, json!({"name": call.target.name})),
    })
}

/// Rejects the deletion of an object that every cluster has. As in kube-apiserver, this does not apply to collections.
fn reject_undeletable(call: &Call<'_>) -> Result<()> {
    let resource = &*call.endpoint.resource;
    match call.endpoint.facts.undeletable {
        Some(kept) if kept.names.contains(&call.target.name) => {
            Err(ApiError::forbidden(&resource.plural, &resource.group, call.target.name, kept.reason))
        }
        _ => Ok(()),
    }
}

/// Returns the Status for an object that was removed.
fn success(resource: &Resource, mut details: Value) -> Answer {
    details["kind"] = json!(&*resource.plural);
    if !resource.group.is_empty() {
        details["group"] = json!(&*resource.group);
    }
    let value = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    Answer::Value { code: StatusCode::OK, value }
}

/// Warns about kinds that orphan their dependents unless the client states a propagation policy.
fn warn_about_dependents(call: &Call<'_>, options: &DeleteOptions) {
    if options.propagation.is_none() && options.orphan_dependents.is_none() {
        call.endpoint.facts.deletion_warning.into_iter().for_each(|warning| call.warnings.add(warning.to_owned()));
    }
}

/// Deletes the objects that a list with the same options would have, and answers with this list.
pub(crate) async fn delete_collection(call: &Call<'_>) -> Result<Answer> {
    let listed = ListOptions::parse(&call.query, false)?;
    let selection = Selection::of(call)?;
    let options = delete_options(call)?;
    warn_about_dependents(call, &options);
    let start = Start::of(call, &listed).await?;
    let is_whole = selection.is_everything() && start.is_whole();
    let list = start.list(call, &selection).await?;
    for object in &list.objects {
        let header = &object.header;
        match delete_named(call, &header.namespace, &header.name, &options).await {
            Ok(_) => {}
            // It was deleted in the meantime.
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    if is_whole {
        purge_all(call, &selection.prefix, &options).await?;
    }
    Ok(Answer::List(list))
}

/// Deletes an object of the endpoint, or begins its deletion.
pub(crate) async fn delete_named(
    call: &Call<'_>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted> {
    let endpoint = call.endpoint;
    let resource = &*endpoint.resource;
    let key = endpoint.key(namespace, name);
    for _ in 0..ATTEMPTS {
        call.server.storage.fresh().await?;
        let read = match endpoint.cache.get(&key) {
            Some(current) => convert::to_served_value(call, current.clone()).await.map(|object| (current, object)),
            None => Err(ApiError::not_found(&resource.plural, &resource.group, name)),
        };
        let (current, object) = match read {
            Ok(read) => read,
            Err(_) if endpoint.cache.damaged(&key).is_some() => match purge(call, &key, options).await {
                Ok(()) => return Ok(Deleted::Purged),
                Err(PersistError::Conflict) => continue,
                Err(PersistError::Failed(error)) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        check_preconditions(call, options, &object, name)?;
        let subject =
            Subject { operation: Operation::Delete, name: call.target.name, options: Options::Delete(options) };
        validating_admission::validate(call, &subject, &object, Some(&object)).boxed().await?;
        let outcome = outcome::decide(endpoint, object, options, call.server.now());
        if options.dry_run {
            return Ok(match outcome {
                Outcome::Mark(object) | Outcome::MarkAndRemove(object) => Deleted::DryRun(object),
                Outcome::Pending => Deleted::Marked(current),
                Outcome::Remove => Deleted::Removed(current),
            });
        }
        let encode = |mut marked| async move { encode_for_deletion(call.server, endpoint, &mut marked).await };
        let deletion = match outcome {
            Outcome::Pending => return Ok(Deleted::Marked(current)),
            Outcome::Remove => Deletion::Remove,
            Outcome::Mark(marked) => match encode(marked).await? {
                marked if current.is_stored_as(&marked) => return Ok(Deleted::Marked(current)),
                marked => Deletion::Mark(marked),
            },
            Outcome::MarkAndRemove(marked) => match encode(marked).await? {
                marked if current.is_stored_as(&marked) => Deletion::Remove,
                marked => Deletion::MarkAndRemove(marked),
            },
        };
        let removes = !matches!(deletion, Deletion::Mark(_));
        let commit = DeletionCommit {
            server: call.server.clone(),
            endpoint: endpoint.clone(),
            key: endpoint.store_key(&key),
            current,
            deletion,
        };
        match commit.run().boxed().await {
            Ok(object) if removes => return Ok(Deleted::Removed(object)),
            Ok(object) => return Ok(Deleted::Marked(object)),
            Err(PersistError::Conflict) => {}
            Err(PersistError::Failed(error)) => return Err(error),
        }
    }
    Err(call.modified(name))
}

/// Deletes all damaged objects under a prefix.
pub(crate) async fn purge_all(call: &Call<'_>, prefix: &str, options: &DeleteOptions) -> Result<()> {
    for key in call.endpoint.cache.damaged_keys(prefix) {
        match purge(call, &key, options).await {
            // It was changed or deleted in the meantime.
            Ok(()) | Err(PersistError::Conflict) => {}
            Err(PersistError::Failed(error)) if error.code == StatusCode::NOT_FOUND => {}
            Err(PersistError::Failed(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Removes a damaged object from the store. Its finalizers cannot be read, and admission has nothing to check.
async fn purge(call: &Call<'_>, key: &str, options: &DeleteOptions) -> Result<(), PersistError> {
    let (endpoint, resource) = (call.endpoint, &*call.endpoint.resource);
    let name = key.rsplit('/').next().unwrap_or(key);
    let missing = || ApiError::not_found(&resource.plural, &resource.group, name);
    let damaged = endpoint.cache.damaged(key).ok_or_else(missing)?;
    let known = json!({"metadata": {"resourceVersion": damaged.revision.to_string()}});
    check_preconditions(call, options, &known, name)?;
    if options.dry_run {
        return Ok(());
    }
    warn!("deleting without finalizers: {}", endpoint.describe_damaged(key, &damaged));
    remove_damaged(call.server, endpoint, key, damaged.revision).await
}

/// Checks the uid and resource version that the client expects.
pub(crate) fn check_preconditions(call: &Call<'_>, options: &DeleteOptions, object: &Value, name: &str) -> Result<()> {
    let resource = &*call.endpoint.resource;
    // Their deletion begins with a check of its own in kube-apiserver.
    if matches!(&*resource.plural, "namespaces" | "customresourcedefinitions") && call.verb == Verb::Delete {
        let expected =
            [("UID", &options.uid, "uid"), ("ResourceVersion", &options.resource_version, "resourceVersion")];
        for (what, wanted, field) in expected {
            let actual = meta::text(object, field);
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
                let why =
                    format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}");
                return Err(ApiError::conflict(&resource.plural, &resource.group, name, &why));
            }
        }
    }
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
