//! PATCH: JSON patch, merge patch and strategic merge patch.

use http::{StatusCode, header::CONTENT_TYPE};
use serde_json::Value;
use windlass_merge::{
    go_format,
    json_patch::{self, Checks},
    merge_patch, strategic,
};
use windlass_schema::field::{ErrorKind, FieldError, quote};

use crate::{
    call::{Answer, Call},
    options::{FieldValidation, WriteOptions},
    status::{ApiError, Result},
    verbs::update::{Race, update_object},
};

/// The media types of the patches that are served.
pub(crate) const TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];

/// A decoded patch.
pub(crate) enum Patch {
    Json(json_patch::Patch),
    Merge { patch: Value, duplicates: Vec<String> },
    Strategic { patch: Value, duplicates: Vec<String> },
}

/// PATCH of an object or of a subresource that is a view of it.
pub(crate) async fn patch(call: &Call<'_>) -> Result<Answer> {
    let media_type = media_type(call)?;
    let options = WriteOptions::parse(&call.query, "PatchOptions")?;
    let patch = Patch::decode(call, media_type, options.field_validation)?;
    let written = update_object(call, &options, Race::Retry, |old| {
        let mut object = patch.patched(call, old.clone(), options.field_validation)?;
        call.match_name(&mut object)?;
        call.match_namespace(&mut object)?;
        Ok(object)
    });
    Ok(written.await?.answer(StatusCode::OK))
}

/// The media type of the patch, if it is one that is served.
pub(crate) fn media_type(call: &Call<'_>) -> Result<&'static str> {
    let header = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let given = header.split(';').next().unwrap_or_default().trim();
    if given.starts_with("application/apply-patch+") {
        let message = "server-side apply is not served yet: use application/merge-patch+json, \
                       application/strategic-merge-patch+json or application/json-patch+json";
        return Err(ApiError::unsupported_media_type(message));
    }
    let known = TYPES.iter().find(|media_type| **media_type == given);
    known.copied().ok_or_else(|| {
        ApiError::unsupported_media_type("415: Unsupported Media Type").with_details(serde_json::Map::new())
    })
}

impl Patch {
    /// Decodes the body of a patch.
    pub(crate) fn decode(call: &Call<'_>, media_type: &str, validation: FieldValidation) -> Result<Self> {
        let checks = if validation == FieldValidation::Ignore { Checks::Lenient } else { Checks::Strict };
        match media_type {
            "application/json-patch+json" => {
                json_patch::Patch::decode(&call.body, checks).map(Patch::Json).map_err(|error| refused(&error))
            }
            "application/merge-patch+json" => merge_patch::decode(&call.body, checks)
                .map(|decoded| Patch::Merge { patch: decoded.value, duplicates: decoded.duplicates })
                .map_err(|error| ApiError::bad_request(error.to_string())),
            _ => strategic::decode(&call.body, checks)
                .map(|decoded| Patch::Strategic { patch: decoded.value, duplicates: decoded.duplicates })
                .map_err(|error| strategic_refused(&error)),
        }
    }

    /// The patched object, decoded into its kind again.
    pub(crate) fn patched(&self, call: &Call<'_>, old: Value, validation: FieldValidation) -> Result<Value> {
        let (mut object, shown, mut complaints) = self.apply(call, old)?;
        complaints.extend(call.decode_value(&mut object).map_err(|error| invalid_patch(&shown, &error))?);
        judge(call, validation, &shown, complaints)?;
        Ok(object)
    }

    /// The patched object, how an error shows it, and what was odd about the patch itself.
    fn apply(&self, call: &Call<'_>, mut old: Value) -> Result<(Value, String, Vec<String>)> {
        match self {
            Self::Json(patch) => {
                let object = patch.clone().apply(old).map_err(|error| refused(&error))?;
                let shown = object.to_string();
                Ok((object, shown, patch.complaints().to_vec()))
            }
            Self::Merge { patch, duplicates } => {
                merge_patch::apply(&mut old, patch.clone());
                let shown = old.to_string();
                Ok((old, shown, duplicates.clone()))
            }
            Self::Strategic { patch, duplicates } => {
                let ty = call.body_type();
                let object = strategic::apply(old, patch.clone(), ty, &call.endpoint.table.types)
                    .map_err(|error| strategic_refused(&error))?;
                Ok((object, go_format::plain(patch), duplicates.clone()))
            }
        }
    }
}

/// Unknown and duplicate fields: nothing, warnings, or an error.
fn judge(call: &Call<'_>, validation: FieldValidation, shown: &str, complaints: Vec<String>) -> Result<()> {
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(invalid_patch(shown, &format!("strict decoding error: {}", complaints.join(", "))))
        }
        _ => {
            complaints.into_iter().for_each(|complaint| call.warnings.add(complaint));
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

fn refused(error: &json_patch::Error) -> ApiError {
    match error.status() {
        400 => ApiError::bad_request(error.client_message()),
        413 => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", error.client_message()),
        _ => unprocessable(error.to_string(), error.client_message()),
    }
}

fn strategic_refused(error: &strategic::Error) -> ApiError {
    match error.status() {
        400 => ApiError::bad_request(error.client_message()),
        422 => unprocessable(error.to_string(), error.client_message()),
        _ => ApiError::unexpected(error.client_message()),
    }
}

/// 422 for a patch that cannot be applied: the client learns little, the log more.
fn unprocessable(cause: String, message: String) -> ApiError {
    let error = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
    ApiError { cause: Some(cause.into()), ..error.with_details(serde_json::Map::new()) }
}
