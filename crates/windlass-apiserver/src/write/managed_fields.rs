//! Managed fields: `metadata.managedFields` after every write, and server-side apply.

use http::header::USER_AGENT;
use serde_json::{Value, json};
use windlass_merge::apply::{
    field_manager::{ApplyError, FieldManager, VersionConverter, default_manager},
    path::Path,
    reset_fields::ResetFields,
    scale::{self, SCALE_API_VERSION},
    schema::TypeRef,
};
use windlass_schema::{decode::restore, structural::TOO_MANY_DEFAULTS, time::Time};

use super::{convert, decode::decode_value};
use crate::{
    call::Call,
    endpoint::{Endpoint, Form},
    meta,
    options::WriteOptions,
    status::{ApiError, Result},
};

/// The versions of the addressed resource, between which the field manager converts.
struct CallVersions<'a>(&'a Call<'a>);

impl VersionConverter for CallVersions<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Option<(Value, TypeRef<'_>)>, String> {
        let endpoint = self.0.endpoint;
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        match &endpoint.form {
            Form::Custom(custom) => {
                let schema = (group == &*endpoint.resource.group).then(|| custom.schema_of(version)).flatten();
                let schema = schema
                    .ok_or_else(|| format!("request to convert CR to an invalid group/version: {api_version}"))?;
                let object = convert::convert_now(self.0, object, api_version)?;
                let types = TypeRef::custom(schema, &endpoint.table.types, endpoint.object_meta());
                Ok(Some((object, types)))
            }
            // As in kube-apiserver, the types of another group are unknown.
            _ if group != &*endpoint.resource.group => Ok(None),
            Form::Stored | Form::View | Form::Converted(_) => {
                let registry = self.0.server.registry.load_full();
                let Some(other) = registry.endpoint(group, version, &endpoint.resource.plural) else { return Ok(None) };
                if !std::ptr::eq(&*other.cache, &*endpoint.cache) {
                    return Ok(None);
                }
                let ty = other.resource.ty;
                let converted = other.to_served_version(endpoint.to_storage_version(object.clone()));
                Ok(Some((converted, TypeRef::built_in(&endpoint.table.types, ty))))
            }
        }
    }

    fn decode_applied(&self, mut object: Value) -> Result<Value, String> {
        let is_scale = self.0.subresource.is_some_and(|sub| &*sub.name == "scale");
        match &self.0.endpoint.form {
            Form::Custom(_) if is_scale => {
                let error = "request to convert CR to an invalid group/version";
                return Err(format!("{error}: {SCALE_API_VERSION}"));
            }
            Form::Custom(custom) => custom.compiled().schema.apply_defaults(&mut object)?,
            Form::Stored | Form::View | Form::Converted(_) => {
                restore(&mut object, self.0.body_type(), &self.0.endpoint.table.types).map_err(|error| {
                    let (version, kind) = self.0.body_kind();
                    let slash = if version.contains('/') { "" } else { "/" };
                    format!("unable to convert unstructured object to {slash}{version}, Kind={kind}: {error}")
                })?;
                decode_value(self.0, &mut object)?;
            }
        }
        Ok(object)
    }
}

/// Field manager of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManagedFieldsMode {
    /// This stage does: changed fields belong to the field manager of the request.
    Track,
    /// The desired object has them already, as after a patch or an apply.
    AlreadySet,
}

/// Attributes the changes of an object to the field manager of the request, converting to other versions by a webhook if
/// that is needed.
pub(super) async fn track_with_webhooks(
    call: &Call<'_>,
    options: &WriteOptions,
    live: Option<&Value>,
    object: &mut Value,
) -> Result<()> {
    if !call.endpoint.has_converter() {
        call.run_blocking(|| track(call, options, live, object));
        return Ok(());
    }
    loop {
        let mut tracked = object.clone();
        track(call, options, live, &mut tracked);
        if !convert::convert_pending(call).await? {
            *object = tracked;
            return Ok(());
        }
    }
}

/// Attributes the changes of an object to the field manager of the request. Needs `convert_pending` after it.
pub(crate) fn track(call: &Call<'_>, options: &WriteOptions, live: Option<&Value>, object: &mut Value) {
    let manager = manager(call, options);
    with_field_manager(call, |fields| fields.update(live, object, &manager, now(call)));
}

/// Applies a configuration to the live object, or creates the object from it.
pub(crate) fn apply(call: &Call<'_>, options: &WriteOptions, live: Option<&Value>, patch: &Value) -> Result<Value> {
    let manager = manager(call, options);
    let applied = with_field_manager(call, |fields| fields.apply(live, patch, &manager, options.force, now(call)));
    applied.map_err(|error| match error {
        ApplyError::BadRequest(message) => ApiError::bad_request(message),
        ApplyError::Failed(message) if message.ends_with(TOO_MANY_DEFAULTS) => ApiError::bad_request(message),
        ApplyError::Failed(message) => ApiError::unexpected(message),
        ApplyError::Conflicts(conflicts) => {
            let cause = |cause: windlass_merge::apply::conflict::Cause| {
                json!({"reason": "FieldManagerConflict", "message": cause.message, "field": cause.field})
            };
            let causes: Vec<Value> = conflicts.causes().into_iter().map(cause).collect();
            let error = ApiError::new(http::StatusCode::CONFLICT, "Conflict", conflicts.to_string());
            ApiError { details: Some(Box::new(json!({"causes": causes}))), ..error }
        }
    })
}

/// Returns the field manager of the request.
fn manager(call: &Call<'_>, options: &WriteOptions) -> String {
    if options.field_manager.is_empty() {
        let agent = call.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        default_manager(agent)
    } else {
        options.field_manager.clone()
    }
}

fn now(call: &Call<'_>) -> Time {
    meta::time(call.server.now())
}

/// Runs `work` with the field manager of the addressed resource, or of the subresource if that has a kind of its own:
/// a scale, a token request.
fn with_field_manager<T>(call: &Call<'_>, work: impl FnOnce(FieldManager<'_>) -> T) -> T {
    let endpoint = call.endpoint;
    let resource = &*endpoint.resource;
    let subresource = call.subresource.map_or("", |sub| &*sub.name);
    let versions = CallVersions(call);
    if subresource == "scale" {
        let empty = json!({"apiVersion": SCALE_API_VERSION, "kind": "Scale"});
        let types = TypeRef::built_in(&endpoint.table.types, call.body_type());
        return work(FieldManager {
            types,
            api_version: SCALE_API_VERSION,
            kind: "Scale",
            subresource,
            reset_fields: ResetFields::none(),
            empty: &empty,
            versions: &versions,
        });
    }
    if subresource == "token" {
        let (api_version, kind) = call.body_kind();
        let mut empty = json!({"apiVersion": api_version, "kind": kind});
        // An object without any field always decodes.
        let _ = decode_value(call, &mut empty);
        return work(FieldManager {
            types: TypeRef::built_in(&endpoint.table.types, call.body_type()),
            api_version: &api_version,
            kind,
            subresource,
            reset_fields: ResetFields::none(),
            empty: &empty,
            versions: &versions,
        });
    }
    let api_version = resource.api_version();
    let (types, reset_fields) = match endpoint.custom() {
        Some(custom) => {
            let compiled = custom.compiled();
            let types = TypeRef::custom(&compiled.schema, &endpoint.table.types, endpoint.object_meta());
            let reset = if subresource.is_empty() { &compiled.reset } else { &compiled.reset_status };
            (types, reset)
        }
        None => {
            let types = TypeRef::built_in(&endpoint.table.types, resource.ty);
            (types, ResetFields::of_builtin(&resource.group, &resource.plural, subresource))
        }
    };
    work(FieldManager {
        types,
        api_version: &api_version,
        kind: &resource.kind,
        subresource,
        reset_fields,
        empty: endpoint.empty(),
        versions: &versions,
    })
}

/// Sets the managed fields of a scale from those of its object.
pub(crate) fn set_scale_managed_fields(endpoint: &Endpoint, object: &Value, scale: &mut Value) {
    if let Some(entries) = object["metadata"]["managedFields"].as_array()
        && let Ok(Some(entries)) = scale::to_scale(entries, &replicas_paths(endpoint))
    {
        scale["metadata"]["managedFields"] = entries;
    }
}

/// Updates the managed fields of an object after a write of its scale.
pub(crate) fn update_from_scale(endpoint: &Endpoint, object: &mut Value, scale: &Value) -> Result<()> {
    let none = Vec::new();
    let before = object["metadata"]["managedFields"].as_array().unwrap_or(&none);
    let after = scale["metadata"]["managedFields"].as_array().unwrap_or(&none);
    let api_version = endpoint.resource.api_version();
    let entries = scale::to_parent(before, after, &api_version, &replicas_paths(endpoint));
    match entries.map_err(ApiError::unexpected)? {
        Some(entries) => object["metadata"]["managedFields"] = entries,
        None => {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
        }
    }
    Ok(())
}

/// Returns the path of the replicas in each version of a resource.
fn replicas_paths(endpoint: &Endpoint) -> Vec<(String, Option<Path>)> {
    match endpoint.custom() {
        Some(custom) => custom.compiled().replicas_paths.clone(),
        None => vec![(endpoint.resource.api_version(), Some(Path::fields(["spec", "replicas"])))],
    }
}
