//! CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1`, which Kubernetes no longer serves and many manifests
//! still use.
//!
//! The version is a second view of the CRDs, which are stored as `v1`. A read returns the old form, so a client reads
//! back what it wrote. A write is upgraded and then runs as a write of `v1`: there is one path to the store, with one
//! set of rules, and managed fields are those of `v1`. The client gets a warning for everything that the upgrade had to
//! change or to assume.
//!
//! A patch is applied to the old form, because that is what its author has seen: `kubectl apply` compares its file with
//! what it reads and sends the difference. A configuration for server-side apply is upgraded by itself, so its `spec`
//! must be complete, as in a manifest, or absent.
//!
//! [`windlass_builtins::upgrade`] describes the upgrade.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};
use windlass_builtins::upgrade::{self, Note, OLD, UpgradeError, apply_legacy_fields, downgrade, upgrade};
use windlass_schema::{json as go_json, yaml};

use crate::{
    call::{Answer, Call},
    definitions::{GROUP, PLURAL},
    endpoint::Form,
    meta,
    metrics::UsualSeries,
    negotiate::{self, Media},
    options::WriteOptions,
    registry::{Conversion, Endpoint},
    request_info::ResourceRequest,
    status::{ApiError, Result},
    verb::Verb,
    verbs::{
        create, delete,
        patch::{self, Patch, decode_patched},
        update,
    },
    write::{ManagedFieldsMode, OnConflict, preconditions::match_name, update_object},
};

/// The old version.
pub(crate) const VERSION: &str = "v1beta1";
const KIND: &str = "CustomResourceDefinition";

static CONVERSION: Conversion = Conversion {
    to_served_version: downgrade,
    // Writes do not use this: their upgrade may fail.
    to_storage_version: |object| upgrade(&object).map_or(object, |upgraded| upgraded.definition),
};

/// Returns the endpoint of the old version over that of `v1`.
pub(crate) fn endpoint(current: &Endpoint) -> Endpoint {
    let mut resource = (*current.resource).clone();
    resource.version = VERSION.into();
    // Only the server itself writes the status.
    resource.subresources = Vec::new();
    Endpoint {
        resource: Arc::new(resource),
        table: current.table,
        strategy: current.strategy,
        facts: current.facts,
        stored: current.stored.clone(),
        cache: current.cache.clone(),
        form: Form::Converted(&CONVERSION),
        returns_deleted: current.returns_deleted,
        empty: OnceLock::new(),
        usual: UsualSeries::default(),
    }
}

/// Returns whether a group version is this one.
pub(crate) fn is_version(group: &str, version: &str) -> bool {
    group == GROUP && version == VERSION
}

/// Handles a write to the old version; returns `None` for everything else.
pub(crate) async fn dispatch(call: &Call<'_>, verb: Verb) -> Option<Result<Answer>> {
    if !call.is_definition() || &*call.endpoint.resource.version != VERSION || verb.is_read() {
        return None;
    }
    Some(write(call, verb).await)
}

/// Runs the write as one of `v1`, and returns the response in the old form.
async fn write(call: &Call<'_>, verb: Verb) -> Result<Answer> {
    let registry = call.server.registry.load_full();
    let endpoint = registry.endpoint(GROUP, "v1", PLURAL).ok_or_else(ApiError::no_such_resource)?;
    let target = ResourceRequest { version: "v1", ..call.target.clone() };
    let redirected = call.redirected(endpoint, target);
    let mut current = Call { query: call.query.clone(), body: call.body.clone(), ..redirected };
    let answer = match verb {
        Verb::Create => {
            current.body = upgraded_body(call)?;
            create::create(&current).await
        }
        Verb::Update => {
            current.body = upgraded_body(call)?;
            update::update(&current).await
        }
        Verb::Patch => patch_old(call, &mut current).await,
        Verb::Delete => delete::delete(&current).await,
        Verb::DeleteCollection => delete::delete_collection(&current).await,
        _ => Err(ApiError::method_not_allowed()),
    };
    current.warnings.take().into_iter().for_each(|warning| call.warnings.add(warning));
    match answer? {
        Answer::Value { code, value } => Ok(Answer::Value { code, value: downgrade(value) }),
        answer => Ok(answer),
    }
}

async fn patch_old(call: &Call<'_>, current: &mut Call<'_>) -> Result<Answer> {
    let media_type = patch::media_type(call)?;
    let options = WriteOptions::parse(&call.query, patch::kind(media_type))?;
    let patch = Patch::decode(call, media_type, &options)?;
    if let Patch::Apply { patch: mut configuration, .. } = patch {
        configuration = match configuration.get("spec") {
            None if upgrade::is_old(&configuration) => {
                configuration["apiVersion"] = upgrade::NEW.into();
                configuration
            }
            _ => upgraded(call, configuration, &[])?,
        };
        current.body = configuration.to_string().into();
        return patch::patch(current).await;
    }
    let current = &*current;
    let written = update_object(current, &options, OnConflict::Retry, ManagedFieldsMode::AlreadySet, |stored| {
        let before = downgrade(stored.clone());
        let mut patched = patch.patched(call, before.clone())?;
        let shown = || patch.shown(call, &before);
        apply_legacy_fields(&mut patched.object, &before);
        // A write of the object does not change the status, so the upgrade need not warn about it.
        patched.object.as_object_mut().map(|object| object.remove("status"));
        let known = upgrade(&before).map(|known| known.notes).unwrap_or_default();
        patched.object = upgraded(call, patched.object, &known)?;
        let object = decode_patched(current, &options, stored, patched, &shown)?;
        match_name(current, &object)?;
        Ok(object)
    });
    Ok(written.await?.answer(StatusCode::OK))
}

/// Returns the body in `v1`. It is JSON, which is valid YAML, so the content type remains correct.
fn upgraded_body(call: &Call<'_>) -> Result<Bytes> {
    let bad = |why: String| {
        ApiError::bad_request(format!("the object provided is unrecognized (must be of type {KIND}): {why}"))
    };
    let document = match negotiate::content_type(call.headers.get(CONTENT_TYPE))? {
        Media::Json => go_json::parse(&call.body).map_err(|error| bad(error.to_string()))?,
        Media::Yaml => yaml::parse(&call.body).map_err(|error| bad(error.to_string()))?,
        Media::Protobuf => {
            return Err(ApiError::unsupported_media_type(format!("{OLD} is served as JSON and YAML only")));
        }
    };
    Ok(upgraded(call, document.value, &[])?.to_string().into())
}

/// Upgrades a CRD to `v1`. The client gets a warning for every change that is not `known` from before.
fn upgraded(call: &Call<'_>, mut object: Value, known: &[Note]) -> Result<Value> {
    if let Some(object) = object.as_object_mut() {
        for (field, value) in [("apiVersion", OLD), ("kind", KIND)] {
            let given = object.get(field).and_then(Value::as_str).unwrap_or_default();
            if given.is_empty() {
                object.insert(field.to_owned(), value.into());
            }
        }
    }
    let upgraded = upgrade(&object).map_err(|error| rejected(&object, &error))?;
    for note in upgraded.notes.iter().filter(|note| !known.contains(note)) {
        call.warnings.add(format!("stored as {}: {note}", upgrade::NEW));
    }
    Ok(upgraded.definition)
}

fn rejected(object: &Value, error: &UpgradeError) -> ApiError {
    let given = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if *error == UpgradeError::NotOld && given != OLD {
        let message = format!("the API version in the data ({given}) does not match the expected API version ({OLD})");
        return ApiError::bad_request(message);
    }
    let name = meta::text(object, "name");
    let message = format!("{KIND} {name:?} cannot be stored as {}: {error}; hint: {}", upgrade::NEW, error.hint());
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
}

/// Returns the OpenAPI document of the version: enough for kubectl to leave validation to the server, but no schema,
/// since the old one was not enforced either.
pub(crate) fn openapi() -> Value {
    let kind = json!({"group": GROUP, "version": VERSION, "kind": KIND});
    let schema = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.CustomResourceDefinition";
    let content = json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
    let parameter =
        |name: &str, kind: &str| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}});
    let path = format!("/apis/{GROUP}/{VERSION}/{PLURAL}/{{name}}");
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": {path: {
            "parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string"}}],
            "patch": {
                "operationId": "patchApiextensionsV1beta1CustomResourceDefinition",
                "parameters": [
                    parameter("dryRun", "string"), parameter("fieldManager", "string"),
                    parameter("fieldValidation", "string"), parameter("force", "boolean"),
                ],
                "requestBody": {"required": true, "content": {
                    "application/apply-patch+yaml": content, "application/json-patch+json": content,
                    "application/merge-patch+json": content,
                }},
                "responses": {"200": {"description": "OK", "content": {"application/json": content}}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            },
        }},
        "components": {"schemas": {schema: {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "description": "A CustomResourceDefinition in the form before v1.",
            "x-kubernetes-group-version-kind": [kind],
        }}},
    })
}
