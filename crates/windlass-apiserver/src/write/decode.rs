//! Decode: from the body of a request to an object of the endpoint's kind, with the defaults of its kind or schema.

mod custom;
mod delete_options;

use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use windlass_builtins::protobuf;
use windlass_schema::{
    decode::{self, TypeMeta},
    field::quote,
    json::{self, Document},
    yaml,
};

pub(crate) use self::delete_options::delete_options;
use crate::{
    call::Call,
    custom::Custom,
    negotiate::{self, Media},
    options::FieldValidation,
    runtime_config,
    status::{ApiError, Result},
    verb::Verb,
};

/// Decodes the body and applies defaults. Unknown and duplicate fields become warnings or an error.
pub(crate) fn decode_body(call: &Call<'_>, validation: FieldValidation) -> Result<Value> {
    let object = match custom_body(call) {
        Some(custom) => custom::decode_body(call, custom, validation)?,
        None => decode_builtin(call, validation)?,
    };
    if let Some(audit) = call.audit {
        audit.request_object(&object);
    }
    Ok(object)
}

fn decode_builtin(call: &Call<'_>, validation: FieldValidation) -> Result<Value> {
    let endpoint = call.endpoint;
    let media = negotiate::content_type(call.headers.get(CONTENT_TYPE))?;
    let (api_version, kind) = call.body_kind();
    let unrecognized = |why: &str| {
        let shown = summary(&call.body);
        ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})"))
    };
    let document: Document<'_> = match media {
        Media::Json => json::parse(&call.body)
            .map_err(|error| unrecognized(&format!("couldn't get version/kind; json parse error: {error}")))?,
        Media::Yaml => yaml::parse(&call.body).map_err(|error| unrecognized(&error.to_string()))?,
        Media::Protobuf => {
            let decoded = protobuf::decode(&call.body, endpoint.table);
            decoded.map_err(|error| unrecognized(&error.to_string()))?.value.into()
        }
    };
    let TypeMeta { api_version: mut given_version, kind: mut given_kind } = decode::type_meta(&document.value)
        .map_err(|error| unrecognized(&format!("couldn't get version/kind; json parse error: {error}")))?;
    if given_version.matches('/').count() > 1 {
        return Err(unrecognized(&format!("unexpected GroupVersion string: {given_version}")));
    }
    if given_version.is_empty() {
        given_version.push_str(&api_version);
    }
    if given_kind.is_empty() {
        given_kind.push_str(kind);
    }
    check_kind(call, (&given_version, &given_kind), (&api_version, kind))?;
    let rejected = |why: &str| {
        let version = given_version.rsplit('/').next().unwrap_or_default();
        let message = format!("{given_kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
        ApiError::bad_request(message)
    };
    let clears = clears_managers(call, &document.value);
    let decoded = decode::decode(document, call.body_type(), &endpoint.table.types, endpoint.wire_form());
    if let Some(error) = decoded.error {
        return Err(rejected(&error));
    }
    match validation {
        FieldValidation::Strict if !decoded.strict.is_empty() => {
            return Err(rejected(&format!("strict decoding error: {}", decoded.strict.join(", "))));
        }
        FieldValidation::Warn => call.warnings.add_complaints(&decoded.strict),
        _ => {}
    }
    let mut object = decoded.value;
    if clears {
        object["metadata"]["managedFields"] = json!([]);
    }
    set_kind_and_defaults(call, &mut object, &api_version, kind);
    Ok(object)
}

/// Decodes an object that a patch or webhook has changed into its kind again, in place. Returns the complaints of a
/// strict decoder.
pub(crate) fn decode_value(call: &Call<'_>, object: &mut Value) -> Result<Vec<String>, String> {
    if let Some(custom) = custom_body(call) {
        return custom::prune_and_default(call, custom, object);
    }
    let value = object.take();
    decode_into(call, object, value)
}

/// Decodes an object that a patch has changed, like [`decode_value`]. Numbers with a fraction are not integers, also if the
/// fraction is zero: kube-apiserver reads the text of the patched object.
pub(crate) fn decode_patched_value(call: &Call<'_>, object: &mut Value) -> Result<Vec<String>, String> {
    if is_custom_body(call) || !has_fraction(object) {
        return decode_value(call, object);
    }
    let text = object.to_string();
    let document = json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    decode_into(call, object, document)
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(map) => map.values().any(has_fraction),
        _ => false,
    }
}

fn decode_into<'d>(
    call: &Call<'_>,
    object: &mut Value,
    document: impl Into<Document<'d>>,
) -> Result<Vec<String>, String> {
    let endpoint = call.endpoint;
    let (api_version, kind) = call.body_kind();
    let document: Document<'_> = document.into();
    let clears = clears_managers(call, &document.value);
    let decoded = decode::decode(document, call.body_type(), &endpoint.table.types, endpoint.wire_form());
    if let Some(error) = decoded.error {
        return Err(error);
    }
    *object = decoded.value;
    if clears {
        object["metadata"]["managedFields"] = json!([]);
    }
    set_kind_and_defaults(call, object, &api_version, kind);
    Ok(decoded.strict)
}

/// Returns whether an update clears the managed fields with an empty list, which decoding drops.
fn clears_managers(call: &Call<'_>, object: &Value) -> bool {
    matches!(call.verb, Verb::Update | Verb::Patch)
        && object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty)
}

/// Returns the rules of the body's CustomResourceDefinition; `None` if the body is of a built-in kind.
fn custom_body<'a>(call: &Call<'a>) -> Option<&'a Custom> {
    call.endpoint.custom().filter(|_| call.subresource.is_none_or(|sub| sub.version.is_empty()))
}

/// Returns whether the body is of a kind that a CustomResourceDefinition defines.
pub(crate) fn is_custom_body(call: &Call<'_>) -> bool {
    custom_body(call).is_some()
}

fn set_kind_and_defaults(call: &Call<'_>, object: &mut Value, api_version: &str, kind: &str) {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    if call.body_type() == call.endpoint.resource.ty {
        call.endpoint.strategy.default(object);
    }
}

/// Reasons why a body cannot be decoded as an object of the expected kind.
enum KindError {
    /// It is of another version.
    Version(ApiError),
    /// It is of another kind.
    Kind(String),
}

/// Rejects a body whose apiVersion and kind are not the expected ones.
fn check_kind(call: &Call<'_>, given: (&str, &str), expected: (&str, &str)) -> Result<()> {
    match kind_error(call, given, expected) {
        None => Ok(()),
        Some(KindError::Version(error)) => Err(error),
        Some(KindError::Kind(why)) => {
            let ((given_version, given_kind), (_, kind)) = (given, expected);
            let version = given_version.rsplit('/').next().unwrap_or_default();
            let message = format!("{given_kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
            Err(ApiError::bad_request(message))
        }
    }
}

/// Rejects a patched object without a kind, and one of a built-in kind that the patch has turned into another kind.
/// Returns the complaints of a strict decoder.
pub(crate) fn check_patched_kind(call: &Call<'_>, object: &mut Value) -> Result<Vec<String>, String> {
    let given = decode::type_meta(object);
    let given = given.map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    if custom_body(call).is_some() {
        let missing = || format!("Object 'Kind' is missing in '{object}'");
        return if given.kind.is_empty() { Err(missing()) } else { Ok(Vec::new()) };
    }
    if given.api_version.is_empty() {
        return Ok(drop_unversioned(object));
    }
    let (api_version, expected) = call.body_kind();
    let kind = if given.kind.is_empty() { expected } else { &given.kind };
    let (group, number) = given.api_version.split_once('/').unwrap_or(("", &given.api_version));
    if kind == expected && runtime_config::is_empty(group, number) {
        return Ok(Vec::new());
    }
    match kind_error(call, (&given.api_version, kind), (&api_version, expected)) {
        Some(KindError::Kind(why)) => Err(why),
        _ => Ok(Vec::new()),
    }
}

/// Removes all fields of an object without a version: kube-apiserver decodes it into its internal type, which has none
/// of them. Returns the complaints about them.
fn drop_unversioned(object: &mut Value) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(map) = object.as_object_mut() {
        map.retain(|field, _| {
            let is_known = matches!(field.as_str(), "kind" | "apiVersion");
            if !is_known {
                complaints.push(format!("unknown field {}", quote(field)));
            }
            is_known
        });
    }
    complaints
}

/// Compares the apiVersion and kind of a body with the expected ones.
fn kind_error(call: &Call<'_>, given: (&str, &str), expected: (&str, &str)) -> Option<KindError> {
    let eviction = given == ("policy/v1beta1", "Eviction") && call.target.subresource == "eviction";
    if given == expected || eviction {
        return None;
    }
    let ((given_version, given_kind), (api_version, kind)) = (given, expected);
    let version = given_version.rsplit('/').next().unwrap_or_default();
    let endpoint = call.endpoint;
    // The server of CustomResourceDefinitions knows no other kinds.
    let definitions = call.is_definition();
    let known = endpoint.table.resources.iter().find(|have| {
        let item_kind = given_kind.strip_suffix("List").filter(|item| !item.is_empty());
        // The core group also has a kind for lists of any objects.
        let is_list =
            item_kind.is_some_and(|item| *have.kind == *item) || (given_kind == "List" && have.group.is_empty());
        !definitions && (*have.kind == *given_kind || is_list) && have.api_version() == given_version
    });
    let other_version = definitions && given_kind == kind && given_version == "apiextensions.k8s.io/v1beta1";
    let why = match known {
        None if other_version => return Some(KindError::Version(wrong_version(given_version, api_version))),
        Some(other) if given_kind == kind && endpoint.stored.plural == other.plural => {
            return Some(KindError::Version(wrong_version(given_version, api_version)));
        }
        Some(_) => {
            // The body of a subresource may be of another group than the resource.
            let package = internal_package(api_version.split_once('/').map_or("", |(group, _)| group));
            format!("converting ({version}.{given_kind}) to ({package}.{kind}): unknown conversion")
        }
        None => {
            let scheme = legacy_scheme(call);
            format!("no kind \"{given_kind}\" is registered for version \"{given_version}\" in scheme \"{scheme}\"")
        }
    };
    Some(KindError::Kind(why))
}

/// The place at which kube-apiserver defines the kinds that it knows for the resource, as error messages name it.
fn legacy_scheme(call: &Call<'_>) -> &'static str {
    // CustomResourceDefinitions are decoded in a server of their own.
    match call.is_definition() {
        true => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
        false => "pkg/api/legacyscheme/scheme.go:30",
    }
}

/// 400 for a body in another version than the path names.
fn wrong_version(given: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

fn given<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

/// The beginning of a body, for error messages: as text if it looks like JSON, else in hexadecimal digits.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let beginning = &body[..body.len().min(SHOWN)];
    let shown = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(beginning).into_owned(),
        Some(_) => beginning.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN { format!("{shown} ...") } else { shown }
}

/// The Go package of a group's types, as error messages name it.
pub(crate) fn internal_package(group: &str) -> &str {
    match group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        first => first,
    }
}
