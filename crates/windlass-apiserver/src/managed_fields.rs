//! Who owns which field: `metadata.managedFields` after every write, and server-side apply.

use http::header::USER_AGENT;
use serde_json::{Value, json};
use windlass_merge::apply::{
    field_manager::{ApplyError, FieldManager, Versions, default_manager},
    path::Path,
    reset_fields::ResetFields,
    scale::{self, SCALE_API_VERSION},
    schema::TypeRef,
};
use windlass_schema::{structural::TOO_MANY_DEFAULTS, time::Time};

use crate::{
    call::Call,
    endpoint::{Endpoint, Form},
    meta,
    options::WriteOptions,
    status::{ApiError, Result},
};

/// The versions of the addressed resource.
struct CallVersions<'a>(&'a Call<'a>);

impl Versions for CallVersions<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Option<(Value, TypeRef<'_>)>, String> {
        let endpoint = self.0.endpoint;
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        match &endpoint.form {
            Form::Custom(custom) => {
                let schema = (group == &*endpoint.resource.group).then(|| custom.schema_of(version)).flatten();
                let schema = schema
                    .ok_or_else(|| format!("request to convert CR to an invalid group/version: {api_version}"))?;
                let object = self.0.remembered(object, api_version)?;
                let types = TypeRef::custom(schema, &endpoint.table.types, endpoint.object_meta());
                Ok(Some((object, types)))
            }
            Form::Stored | Form::Converted(_) => {
                let registry = self.0.server.registry.load_full();
                let Some(other) = registry.endpoint(group, version, &endpoint.resource.plural) else { return Ok(None) };
                if !std::ptr::eq(&*other.cache, &*endpoint.cache) {
                    return Ok(None);
                }
                let ty = other.resource.ty;
                let converted = other.convert(endpoint.store(object.clone()));
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
            Form::Stored | Form::Converted(_) => {
                self.0.decode_value(&mut object)?;
            }
        }
        Ok(object)
    }
}

impl Call<'_> {
    /// Attributes what is new in an object to whoever writes it.
    pub(crate) fn track(&self, options: &WriteOptions, live: Option<&Value>, object: &mut Value) {
        let manager = self.manager(options);
        self.with_field_manager(|fields| fields.update(live, object, &manager, self.now()));
    }

    /// The same, where it may take a webhook to compare versions.
    pub(crate) async fn track_converted(
        &self,
        options: &WriteOptions,
        live: Option<&Value>,
        object: &mut Value,
    ) -> Result<()> {
        if !self.needs_converter() {
            self.heavily(|| self.track(options, live, object));
            return Ok(());
        }
        loop {
            let mut tracked = object.clone();
            self.track(options, live, &mut tracked);
            if !self.convert_wanted().await? {
                *object = tracked;
                return Ok(());
            }
        }
    }

    /// Applies a configuration to an object, or makes it from nothing.
    pub(crate) fn apply(&self, options: &WriteOptions, live: Option<&Value>, patch: &Value) -> Result<Value> {
        let manager = self.manager(options);
        let applied = self.with_field_manager(|fields| fields.apply(live, patch, &manager, options.force, self.now()));
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

    /// The name under which fields are owned.
    fn manager(&self, options: &WriteOptions) -> String {
        if options.field_manager.is_empty() {
            let agent = self.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
            default_manager(agent)
        } else {
            options.field_manager.clone()
        }
    }

    fn now(&self) -> Time {
        meta::time(self.server.now())
    }

    /// Works with the field manager of the addressed resource, or of what stands for it: its scale, a request for a token.
    fn with_field_manager<T>(&self, work: impl FnOnce(FieldManager<'_>) -> T) -> T {
        let endpoint = self.endpoint;
        let resource = &*endpoint.resource;
        let subresource = self.subresource.map_or("", |sub| &*sub.name);
        let versions = CallVersions(self);
        if subresource == "scale" {
            let types = TypeRef::built_in(&endpoint.table.types, self.body_type());
            return work(FieldManager {
                types,
                api_version: SCALE_API_VERSION,
                kind: "Scale",
                subresource,
                reset_fields: ResetFields::none(),
                empty: endpoint.empty(),
                versions: &versions,
            });
        }
        if subresource == "token" {
            let (api_version, kind) = self.body_kind();
            let mut empty = json!({"apiVersion": api_version, "kind": kind});
            // It fits: it has nothing that could not.
            let _ = self.decode_value(&mut empty);
            return work(FieldManager {
                types: TypeRef::built_in(&endpoint.table.types, self.body_type()),
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
}

/// The scale of an object with the managed fields it would have.
pub(crate) fn owners_of_scale(endpoint: &Endpoint, object: &Value, scale: &mut Value) {
    if let Some(entries) = object["metadata"]["managedFields"].as_array()
        && let Ok(Some(entries)) = scale::to_scale(entries, &replicas_paths(endpoint))
    {
        scale["metadata"]["managedFields"] = entries;
    }
}

/// The managed fields of an object after a write of its scale.
pub(crate) fn owners_after_scale(endpoint: &Endpoint, object: &mut Value, scale: &Value) -> Result<()> {
    let nobody = Vec::new();
    let before = object["metadata"]["managedFields"].as_array().unwrap_or(&nobody);
    let after = scale["metadata"]["managedFields"].as_array().unwrap_or(&nobody);
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

/// Where the versions of a resource keep their replicas.
fn replicas_paths(endpoint: &Endpoint) -> Vec<(String, Option<Path>)> {
    match endpoint.custom() {
        Some(custom) => custom.compiled().replicas_paths.clone(),
        None => vec![(endpoint.resource.api_version(), Some(Path::fields(["spec", "replicas"])))],
    }
}
