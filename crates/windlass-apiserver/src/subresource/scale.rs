//! The scale of a workload: a small view of a larger object.

use http::StatusCode;
use serde_json::Value;
use windlass_builtins::kinds::{
    custom_resource_definition::Scale,
    scale::{self, to_scale},
};

use crate::{
    admission::Operation,
    call::{Answer, Call},
    custom,
    dynamic_admission::{self, DynamicAdmission, Rounds},
    meta,
    options::{WriteKind, WriteOptions},
    registry::Endpoint,
    request_info::ResourceRequest,
    status::{ApiError, Result},
    verb::Verb,
    verbs::patch,
    webhooks::{Options, Subject},
    write::{
        ManagedFieldsMode, OnConflict, Written,
        convert::to_served_value,
        decode::decode_body,
        managed_fields,
        preconditions::{check_uid, match_name, match_namespace},
        update_object,
    },
};

/// The number of times policies and webhooks run again after a conflict.
const ATTEMPTS: usize = 10;

/// Handles GET, PUT and PATCH of a scale.
pub(crate) async fn dispatch(call: &Call<'_>, verb: Verb) -> Result<Answer> {
    let object = call.redirected(call.endpoint, ResourceRequest { subresource: "", ..call.target.clone() });
    match verb {
        Verb::Get => {
            let current = call.current().await?.ok_or_else(|| call.not_found())?;
            let object = to_served_value(call, current).await?;
            let value = match scale_of(call.endpoint) {
                Some(paths) => custom::scale::of(paths, &object)?,
                None => to_scale(&object),
            };
            Ok(Answer::Value { code: StatusCode::OK, value })
        }
        Verb::Update => {
            let options = WriteOptions::parse(&call.query, WriteKind::Update)?;
            let mut scale = decode_body(call, options.field_validation)?;
            match_name(call, &scale)?;
            match_namespace(call, &mut scale)?;
            // A scale of a custom resource without a resource version is written unconditionally.
            let stated = scale_of(call.endpoint).is_none() || !meta::text(&scale, "resourceVersion").is_empty();
            let on_conflict = if stated { OnConflict::Fail } else { OnConflict::Retry };
            let desire = |old: &Value| {
                check_uid(&object, &scale, old)?;
                let mut scale = scale.clone();
                managed_fields::track(call, &options, Some(&view(call.endpoint, old)?), &mut scale);
                Ok(scale)
            };
            write(call, &object, &options, on_conflict, desire).await
        }
        Verb::Patch => {
            let media_type = patch::media_type(call)?;
            let options = WriteOptions::parse(&call.query, patch::kind(media_type))?;
            let patch = patch::Patch::decode(call, media_type, &options)?;
            let desire = |old: &Value| patch.changed(call, &view(call.endpoint, old)?, &options);
            write(call, &object, &options, OnConflict::Retry, desire).await
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Writes the desired scale to its object.
async fn write(
    call: &Call<'_>,
    object: &Call<'_>,
    options: &WriteOptions,
    on_conflict: OnConflict,
    desire: impl Fn(&Value) -> Result<Value>,
) -> Result<Answer> {
    let endpoint = call.endpoint;
    for _ in 0..ATTEMPTS {
        let Some(dynamic) = dynamic_admission::for_call(call) else { break };
        let current = call.current().await?.ok_or_else(|| call.not_found())?;
        let old = to_served_value(call, current).await?;
        let desired = admit_scale(call, &dynamic, options, &old, desire(&old)?).await?;
        // The approval of policies and webhooks holds only for the object that they have seen.
        let written = update_object(object, options, OnConflict::Fail, ManagedFieldsMode::AlreadySet, |present| {
            match meta::text(present, "resourceVersion") == meta::text(&old, "resourceVersion") {
                true => Ok(desired.clone()),
                false => Err(call.modified(call.target.name)),
            }
        });
        match written.await {
            Err(error) if error.reason == "Conflict" && on_conflict == OnConflict::Retry => {}
            written => return answer(endpoint, written?),
        }
    }
    let written = update_object(object, options, on_conflict, ManagedFieldsMode::AlreadySet, |old| {
        rescaled(endpoint, old, &desire(old)?)
    });
    answer(endpoint, written.await?)
}

/// Runs the policies and webhooks for a scale; returns the object with that scale.
async fn admit_scale(
    call: &Call<'_>,
    dynamic: &DynamicAdmission,
    options: &WriteOptions,
    old: &Value,
    mut scale: Value,
) -> Result<Value> {
    let endpoint = call.endpoint;
    let subject = Subject { operation: Operation::Update, name: call.target.name, options: Options::Write(options) };
    let before = plain(endpoint, old)?;
    dynamic.mutate(call, &subject, &mut scale, Some(&before), &mut Rounds::default()).await?;
    let desired = rescaled(endpoint, old, &scale)?;
    dynamic.validate(call, &subject, &plain(endpoint, &desired)?, Some(&before)).await?;
    Ok(desired)
}

/// Returns the scale of an object as clients see it.
fn plain(endpoint: &Endpoint, object: &Value) -> Result<Value> {
    match scale_of(endpoint) {
        Some(paths) => Ok(custom::scale::shown(custom::scale::view(paths, object)?)),
        None => Ok(to_scale(object)),
    }
}

/// Returns the scale paths of a custom resource.
fn scale_of(endpoint: &Endpoint) -> Option<&Scale> {
    endpoint.custom()?.scale.as_ref()
}

/// Returns the scale of an object, to be changed and written back.
fn view(endpoint: &Endpoint, object: &Value) -> Result<Value> {
    let mut view = match scale_of(endpoint) {
        Some(paths) => custom::scale::view(paths, object)?,
        None => to_scale(object),
    };
    managed_fields::set_scale_managed_fields(endpoint, object, &mut view);
    Ok(view)
}

/// Returns the object with the replicas of a scale.
fn rescaled(endpoint: &Endpoint, old: &Value, scale: &Value) -> Result<Value> {
    let resource = &*endpoint.resource;
    let name = meta::text(old, "name");
    if let Some(paths) = scale_of(endpoint) {
        let mut object = custom::scale::write(paths, old, scale)?;
        managed_fields::update_from_scale(endpoint, &mut object, scale)?;
        return Ok(object);
    }
    let errors = scale::validate(scale);
    if !errors.is_empty() {
        return Err(ApiError::invalid("Scale", "autoscaling", name, &errors));
    }
    if let Some(why) = scale::uid_conflict(old, scale) {
        return Err(ApiError::conflict(&format!("{}/scale", resource.plural), &resource.group, name, &why));
    }
    let mut object = old.clone();
    scale::apply_scale(&mut object, scale);
    managed_fields::update_from_scale(endpoint, &mut object, scale)?;
    Ok(object)
}

fn answer(endpoint: &Endpoint, written: Written) -> Result<Answer> {
    let object = match written {
        Written::Stored(object) => endpoint.to_served_value(&object),
        Written::DryRun(object) => object,
    };
    Ok(Answer::Value { code: StatusCode::OK, value: plain(endpoint, &object)? })
}
