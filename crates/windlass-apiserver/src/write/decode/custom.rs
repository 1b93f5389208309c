//! Decodes the body of a custom resource, pruned and defaulted by its schema.

use http::header::CONTENT_TYPE;
use serde_json::Value;
use windlass_schema::{
    decode,
    json::{self, Document},
    yaml,
};

use super::{summary, wrong_version};
use crate::{
    call::Call,
    custom::Custom,
    negotiate::{self, Media},
    options::FieldValidation,
    status::{ApiError, Result},
};

/// Decodes the body of a custom resource. Unknown and duplicate fields become warnings or an error.
pub(super) fn decode_body(call: &Call<'_>, custom: &Custom, validation: FieldValidation) -> Result<Value> {
    let resource = &*call.endpoint.resource;
    let media = negotiate::content_type(call.headers.get(CONTENT_TYPE))?;
    let kind = &*resource.kind;
    let unrecognized = |why: &str| {
        let shown = summary(&call.body);
        ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})"))
    };
    let not_json = |error: String| unrecognized(&format!("couldn't get version/kind; json parse error: {error}"));
    let document: Document<'_> = match media {
        Media::Json => json::parse(&call.body).map_err(|error| not_json(error.to_string()))?,
        Media::Yaml => yaml::parse(&call.body).map_err(|error| unrecognized(&error.to_string()))?,
        Media::Protobuf => return Err(unrecognized("custom resources have no protobuf form")),
    };
    let given = decode::type_meta(&document.value).map_err(not_json)?;
    if given.kind.is_empty() {
        let shown = match media {
            Media::Json => String::from_utf8_lossy(&call.body).into_owned(),
            _ => document.value.to_string(),
        };
        return Err(unrecognized(&format!("Object 'Kind' is missing in '{shown}'")));
    }
    let expected = resource.api_version();
    if given.api_version != expected {
        return Err(wrong_version(&given.api_version, &expected));
    }
    let rejected = |why: &str| {
        let (given, version) = (&given.kind, &resource.version);
        ApiError::bad_request(format!("{given} in version \"{version}\" cannot be handled as a {kind}: {why}"))
    };
    let mut complaints = document.duplicates();
    let mut object = document.value;
    complaints.extend(prune_and_default(call, custom, &mut object).map_err(|error| rejected(&error))?);
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            return Err(rejected(&format!("strict decoding error: {}", complaints.join(", "))));
        }
        FieldValidation::Warn => call.warnings.add_complaints(&complaints),
        _ => {}
    }
    Ok(object)
}

/// Prunes and defaults an object by its schema. Returns the complaints of a strict decoder.
pub(super) fn prune_and_default(call: &Call<'_>, custom: &Custom, object: &mut Value) -> Result<Vec<String>, String> {
    // An object that claims another kind is rejected later, by validation, and must not be pruned before.
    let own_kind = object["kind"] == *call.endpoint.resource.kind;
    custom.prune_and_default(object, own_kind)
}
