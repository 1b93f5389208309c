//! PATCH: JSON patch, merge patch, strategic merge patch and server-side apply.

mod shown;

use http::{StatusCode, header::CONTENT_TYPE};
use serde_json::Value;
use windlass_merge::{
    go_format,
    json_patch::{self, Checks},
    merge_patch, strategic,
};
use windlass_schema::{
    decode::restore,
    field::{ErrorKind, FieldError, quote},
    json,
    types::Type,
    yaml,
};

use crate::{
    call::{Answer, Call},
    meta,
    options::{FieldValidation, WriteKind, WriteOptions},
    status::{ApiError, Result},
    write::{
        ManagedFieldsMode, OnConflict, Written,
        convert::convert_pending,
        create_object,
        decode::{check_patched_kind, decode_patched_value, is_custom_body},
        managed_fields,
        preconditions::{match_name, match_namespace},
        update_object,
    },
};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The supported media types.
const TYPES: [&str; 4] = [JSON, MERGE, STRATEGIC, APPLY];

/// The number of times an apply tries to create an object that other clients create and delete at the same time.
const CREATE_ATTEMPTS: usize = 8;

/// A decoded patch.
pub(crate) enum Patch {
    Json(json_patch::Patch),
    Merge { patch: Value, duplicates: Vec<String> },
    Strategic { patch: Value, duplicates: Vec<String> },
    Apply { patch: Value, duplicates: Vec<String> },
}

/// Patches an object, or the part of it that a subresource such as `status` is a view of.
pub(crate) async fn patch(call: &Call<'_>) -> Result<Answer> {
    let media_type = media_type(call)?;
    let options = WriteOptions::parse(&call.query, kind(media_type))?;
    let patch = Patch::decode(call, media_type, &options)?;
    for _ in 0..CREATE_ATTEMPTS {
        if !patch.creates() || call.subresource.is_some() {
            break;
        }
        if call.current().await?.is_some() {
            match update_patched(call, &patch, &options).await {
                // It was deleted in the meantime, so the apply has to create it.
                Err(error) if error.code == StatusCode::NOT_FOUND => continue,
                result => return result,
            }
        }
        match create_applied(call, &patch, &options).await {
            // It was created in the meantime, so the apply has to update it.
            Err(error) if error.reason == "AlreadyExists" && !options.dry_run => {}
            result => return Ok(result?.answer(StatusCode::CREATED)),
        }
    }
    update_patched(call, &patch, &options).await
}

async fn update_patched(call: &Call<'_>, patch: &Patch, options: &WriteOptions) -> Result<Answer> {
    let written = update_object(call, options, OnConflict::Retry, ManagedFieldsMode::AlreadySet, |old| {
        let mut object = patch.changed(call, old, options)?;
        match_name(call, &object)?;
        match_namespace(call, &mut object)?;
        Ok(object)
    });
    Ok(written.await?.answer(StatusCode::OK))
}

/// Creates an object by an apply.
async fn create_applied(call: &Call<'_>, patch: &Patch, options: &WriteOptions) -> Result<Written> {
    let mut object = loop {
        let changed = call.run_blocking(|| patch.changed(call, call.endpoint.empty(), options));
        if !convert_pending(call).await? {
            break changed?;
        }
    };
    let uid = meta::text(&object, "uid");
    if !uid.is_empty() {
        let resource = &*call.endpoint.resource;
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        return Err(ApiError::conflict(&resource.plural, &resource.group, call.target.name, &why));
    }
    match_namespace(call, &mut object)?;
    match_name(call, &object)?;
    meta::metadata_mut(&mut object).remove("resourceVersion");
    create_object(call, object, options, ManagedFieldsMode::AlreadySet).await
}

/// Returns the kind of options of a patch.
pub(crate) fn kind(media_type: &str) -> WriteKind {
    if media_type == APPLY { WriteKind::Apply } else { WriteKind::Patch }
}

/// Returns the media type of the patch.
pub(crate) fn media_type(call: &Call<'_>) -> Result<&'static str> {
    let header = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let given = header.split(';').next().unwrap_or_default().trim();
    let known = TYPES.iter().find(|media_type| **media_type == given).copied();
    if call.endpoint.custom().is_none() {
        return known.ok_or_else(|| {
            ApiError::unsupported_media_type("415: Unsupported Media Type").with_details(serde_json::Map::new())
        });
    }
    known.filter(|media_type| *media_type != STRATEGIC).ok_or_else(|| {
        ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {JSON}, {MERGE}, {APPLY}"
        ))
    })
}

impl Patch {
    /// Decodes the body of a patch.
    pub(crate) fn decode(call: &Call<'_>, media_type: &str, options: &WriteOptions) -> Result<Self> {
        if let Some(audit) = call.audit {
            audit.request_patch(&call.body);
        }
        let lenient = options.field_validation == FieldValidation::Ignore;
        let checks = if lenient { Checks::Lenient } else { Checks::Strict };
        match media_type {
            APPLY => decode_apply(&call.body),
            JSON => json_patch::Patch::decode(&call.body, checks).map(Patch::Json).map_err(|error| rejected(&error)),
            MERGE => merge_patch::decode(&call.body, checks)
                .map(|decoded| Patch::Merge { patch: decoded.value, duplicates: decoded.duplicates })
                .map_err(|error| ApiError::bad_request(error.to_string())),
            _ => strategic::decode(&call.body, checks)
                .map(|decoded| Patch::Strategic { patch: decoded.value, duplicates: decoded.duplicates })
                .map_err(|error| strategic_rejected(&error)),
        }
    }

    /// Returns whether the patch creates an object that does not exist.
    fn creates(&self) -> bool {
        matches!(self, Self::Apply { .. })
    }

    /// Returns the desired object, decoded into its kind again, with managed fields.
    pub(crate) fn changed(&self, call: &Call<'_>, old: &Value, options: &WriteOptions) -> Result<Value> {
        if let Self::Apply { patch, duplicates } = self {
            let live = Some(old).filter(|old| !meta::text(old, "uid").is_empty());
            let object = managed_fields::apply(call, options, live, patch)?;
            return match options.field_validation {
                FieldValidation::Strict if !duplicates.is_empty() => {
                    Err(ApiError::bad_request(format!("error strict decoding YAML: {}", strict_error(duplicates))))
                }
                FieldValidation::Warn if !duplicates.is_empty() => {
                    call.warnings.add_complaints(&[strict_error(duplicates)]);
                    Ok(object)
                }
                _ => Ok(object),
            };
        }
        let mut patched = self.patched(call, old.clone())?;
        let checked = match self {
            // It is not decoded, but copied to the fields of the kind.
            Self::Strategic { .. } => {
                restore(&mut patched.object, call.body_type(), &call.endpoint.table.types).map(|()| Vec::new())
            }
            _ => check_patched_kind(call, &mut patched.object),
        };
        patched.complaints.extend(checked.map_err(|why| invalid_patch(&self.shown(call, old), &why))?);
        if is_custom_body(call) && meta_version(&patched.object).is_empty() {
            return Err(ApiError::internal("Object 'apiVersion' is missing in 'object has no apiVersion field'"));
        }
        decode_patched(call, options, old, patched, &|| self.shown(call, old))
    }

    /// Returns the outcome of the patch as error messages show it. Computed again from the beginning, as it is rarely
    /// needed.
    pub(crate) fn shown(&self, call: &Call<'_>, old: &Value) -> String {
        match self {
            Self::Strategic { patch, .. } => go_format::plain(patch),
            _ => self.patched(call, old.clone()).map(|patched| self.format(call, &patched.object)).unwrap_or_default(),
        }
    }

    fn format(&self, call: &Call<'_>, patched: &Value) -> String {
        let touched = match self {
            _ if is_custom_body(call) => return patched.to_string(),
            Self::Json(patch) => shown::parts(patch.pointers()),
            Self::Merge { patch, .. } | Self::Strategic { patch, .. } | Self::Apply { patch, .. } => patch.clone(),
        };
        shown::show(patched, &Type::Struct(call.body_type()), &call.endpoint.table.types, &touched)
    }

    /// Returns the outcome of the patch, which need not be of the kind.
    pub(crate) fn patched(&self, call: &Call<'_>, mut old: Value) -> Result<Patched> {
        let (object, complaints): (_, &[String]) = match self {
            Self::Apply { patch, duplicates } => (patch.clone(), duplicates),
            Self::Json(patch) => (patch.clone().apply(old).map_err(|error| rejected(&error))?, patch.strict_errors()),
            Self::Merge { patch, duplicates } => {
                merge_patch::apply(&mut old, patch.clone());
                (old, duplicates)
            }
            Self::Strategic { patch, duplicates } => {
                let ty = call.body_type();
                let object = strategic::apply(old, patch.clone(), ty, &call.endpoint.table.types)
                    .map_err(|error| strategic_rejected(&error))?;
                (object, duplicates)
            }
        };
        Ok(Patched { object, complaints: complaints.to_vec() })
    }
}

/// The outcome of a patch, not yet decoded.
pub(crate) struct Patched {
    pub(crate) object: Value,
    /// Complaints about the patch itself.
    complaints: Vec<String>,
}

/// Decodes a patched object into its kind again and sets its managed fields.
pub(crate) fn decode_patched(
    call: &Call<'_>,
    options: &WriteOptions,
    old: &Value,
    patched: Patched,
    shown: &dyn Fn() -> String,
) -> Result<Value> {
    let Patched { mut object, mut complaints } = patched;
    // Unchanged metadata, which is most of a custom resource, need not be decoded again.
    let known = call.endpoint.custom().is_some() && object["metadata"] == old["metadata"];
    let metadata = if known { object.as_object_mut().and_then(|map| map.remove("metadata")) } else { None };
    complaints.extend(decode_patched_value(call, &mut object).map_err(|error| invalid_patch(&shown(), &error))?);
    if let Some(metadata) = metadata {
        object["metadata"] = metadata;
    }
    apply_field_validation(call, options.field_validation, shown, complaints)?;
    managed_fields::track(call, options, Some(old), &mut object);
    Ok(object)
}

fn meta_version(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap_or_default()
}

/// Decodes a configuration to apply: YAML, of which JSON is a subset.
fn decode_apply(body: &[u8]) -> Result<Patch> {
    let bad = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    // Most clients send JSON, which its own parser reads faster; errors are reported as those of YAML.
    let document = match json::parse(body) {
        Ok(document) if document.duplicates().is_empty() => document,
        _ => yaml::parse(body).map_err(|error| bad(format!("error converting YAML to JSON: {error}")))?,
    };
    let duplicates = document.duplicates();
    match document.value {
        patch @ Value::Object(_) => Ok(Patch::Apply { patch, duplicates }),
        Value::Null => Ok(Patch::Apply { patch: Value::Object(serde_json::Map::new()), duplicates }),
        other => {
            let found = go_format::json_type(&other);
            Err(bad(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
                 map[string]interface {{}}"
            )))
        }
    }
}

/// Returns the error of a strict YAML decoder about duplicate keys.
fn strict_error(duplicates: &[String]) -> String {
    format!("error converting YAML to JSON: {}", duplicates.join(", "))
}

/// Treats unknown and duplicate fields as the field validation demands: ignored, warnings, or an error.
fn apply_field_validation(
    call: &Call<'_>,
    validation: FieldValidation,
    shown: &dyn Fn() -> String,
    complaints: Vec<String>,
) -> Result<()> {
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(invalid_patch(&shown(), &format!("strict decoding error: {}", complaints.join(", "))))
        }
        _ => {
            call.warnings.add_complaints(&complaints);
            Ok(())
        }
    }
}

/// 422 for a patch whose outcome is not an object of the kind.
fn invalid_patch(shown: &str, why: &str) -> ApiError {
    let error = FieldError {
        kind: ErrorKind::Invalid,
        field: "patch".to_owned(),
        value: Some(quote(shown)),
        detail: why.to_owned(),
    };
    ApiError::invalid("", "", "", &vec![error])
}

fn rejected(error: &json_patch::Error) -> ApiError {
    match error.status() {
        400 => ApiError::bad_request(error.client_message()),
        413 => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", error.client_message()),
        _ => unprocessable(error.to_string(), error.client_message()),
    }
}

fn strategic_rejected(error: &strategic::Error) -> ApiError {
    match error.status() {
        400 => ApiError::bad_request(error.client_message()),
        422 => unprocessable(error.to_string(), error.client_message()),
        _ => ApiError::unexpected(error.client_message()),
    }
}

/// 422 for a patch that cannot be applied; the log gets more details than the client.
fn unprocessable(cause: String, message: String) -> ApiError {
    let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
    ApiError { cause: Some(cause.into()), ..error.with_details(serde_json::Map::new()) }
}
