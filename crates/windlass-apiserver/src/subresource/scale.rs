//! The scale of a workload: a small object that is a view of a larger one.

use http::StatusCode;
use serde_json::Value;
use windlass_builtins::{
    kinds::scale::{self, to_scale},
    resource::Resource,
};

use crate::{
    call::{Answer, Call},
    meta,
    options::WriteOptions,
    registry::Endpoint,
    request_info::ResourceRequest,
    status::{ApiError, Result},
    verbs::{
        patch,
        update::{Race, update_object},
        write::Written,
    },
};

/// GET, PUT and PATCH of a scale.
pub(crate) async fn dispatch(call: &Call<'_>, verb: &str) -> Result<Answer> {
    let object = call.redirected(call.endpoint, ResourceRequest { subresource: "", ..call.target.clone() });
    match verb {
        "get" => {
            let current = call.current().await?.ok_or_else(|| call.not_found())?;
            Ok(Answer::Value { code: StatusCode::OK, value: to_scale(&call.endpoint.serve(current.to_value())) })
        }
        "update" => {
            let options = WriteOptions::parse(&call.query, "UpdateOptions")?;
            let mut scale = call.decode_body(options.field_validation)?;
            call.match_name(&mut scale)?;
            call.match_namespace(&mut scale)?;
            let written =
                update_object(&object, &options, Race::Fail, |old| rescaled(call.endpoint.resource, old, &scale))
                    .await?;
            Ok(answer(call.endpoint, written))
        }
        "patch" => {
            let media_type = patch::media_type(call)?;
            let options = WriteOptions::parse(&call.query, "PatchOptions")?;
            let patch = patch::Patch::decode(call, media_type, options.field_validation)?;
            let written = update_object(&object, &options, Race::Retry, |old| {
                let scale = patch.patched(call, to_scale(old), options.field_validation)?;
                rescaled(call.endpoint.resource, old, &scale)
            });
            Ok(answer(call.endpoint, written.await?))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// The object with the replicas of a scale.
fn rescaled(resource: &Resource, old: &Value, scale: &Value) -> Result<Value> {
    let name = meta::text(old, "name");
    let errors = scale::validate(scale);
    if !errors.is_empty() {
        return Err(ApiError::invalid("Scale", "autoscaling", name, &errors));
    }
    if let Some(why) = scale::uid_conflict(old, scale) {
        return Err(ApiError::conflict(&format!("{}/scale", resource.plural), &resource.group, name, &why));
    }
    let mut object = old.clone();
    scale::apply_scale(&mut object, scale);
    Ok(object)
}

fn answer(endpoint: &Endpoint, written: Written) -> Answer {
    let object = match written {
        Written::Stored(object) => endpoint.serve(object.to_value()),
        Written::DryRun(object) => object,
    };
    Answer::Value { code: StatusCode::OK, value: to_scale(&object) }
}
