//! From a request's body to a custom resource: pruned, defaulted, its metadata in shape.

use http::header::CONTENT_TYPE;
use serde_json::Value;
use windlass_schema::{
    decode,
    json::{self, Document},
    yaml,
};

use crate::{
    call::Call,
    custom::Custom,
    decode::summary,
    negotiate::{self, Media},
    options::FieldValidation,
    status::{ApiError, Result},
};

impl Call<'_> {
    /// Decodes the body of a custom resource. Unknown and duplicate fields become warnings or an error.
    pub(crate) fn decode_custom(&self, custom: &Custom, validation: FieldValidation) -> Result<Value> {
        let media = negotiate::content_type(self.headers.get(CONTENT_TYPE))?;
        let kind = &*self.endpoint.resource.kind;
        let unrecognized = |why: &str| {
            let shown = summary(&self.body);
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
            ))
        };
        let not_json = |error: String| unrecognized(&format!("couldn't get version/kind; json parse error: {error}"));
        let document: Document<'_> = match media {
            Media::Json => json::parse(&self.body).map_err(|error| not_json(error.to_string()))?,
            Media::Yaml => yaml::parse(&self.body).map_err(|error| unrecognized(&error.to_string()))?,
            Media::Protobuf => return Err(unrecognized("custom resources have no protobuf form")),
        };
        let given = decode::type_meta(&document.value).map_err(not_json)?;
        if given.kind.is_empty() {
            let shown = match media {
                Media::Json => String::from_utf8_lossy(&self.body).into_owned(),
                _ => document.value.to_string(),
            };
            return Err(unrecognized(&format!("Object 'Kind' is missing in '{shown}'")));
        }
        let expected = self.endpoint.resource.api_version();
        if given.api_version != expected {
            let given = &given.api_version;
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({expected})"
            )));
        }
        let refused = |why: &str| {
            let version = &self.endpoint.resource.version;
            let given = &given.kind;
            ApiError::bad_request(format!("{given} in version \"{version}\" cannot be handled as a {kind}: {why}"))
        };
        let mut complaints = document.duplicates();
        let mut object = document.value;
        complaints.extend(self.fit_custom(custom, &mut object).map_err(|error| refused(&error))?);
        match validation {
            FieldValidation::Strict if !complaints.is_empty() => {
                return Err(refused(&format!("strict decoding error: {}", complaints.join(", "))));
            }
            FieldValidation::Warn => complaints.into_iter().for_each(|complaint| self.warnings.add(complaint)),
            _ => {}
        }
        Ok(object)
    }

    /// Makes an object fit its definition as far as that goes; gives what a strict decoder complains about.
    pub(crate) fn fit_custom(&self, custom: &Custom, object: &mut Value) -> Result<Vec<String>, String> {
        // What says it is something else is refused later, as it is.
        let fits = object["kind"] == *self.endpoint.resource.kind;
        custom.fit(object, fits)
    }
}
