//! Responses in the accepted form: JSON, YAML or protobuf; complete, as a Table, or metadata only.

mod audited;
mod computed;
mod event;
mod list;
mod table;

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use serde_json::{Value, json};
use windlass_builtins::protobuf;
use windlass_schema::{json as go_json, yaml};
use windlass_store::Revision;

use self::table::Columns;
pub(crate) use self::{computed::computed, event::EventFormat};
use crate::{
    body::Body,
    call::{Answer, Call},
    negotiate::{self, Media, Representation, Transform},
    registry::Endpoint,
    status::{ApiError, Result},
    write::decode::internal_package,
};

/// The headers of an ordinary response: those that are set here, of flow control and auditing, and of the connection.
const HEADERS: usize = 8;
/// The size above which bodies are compressed for clients that accept it.
pub(crate) const COMPRESS_ABOVE: usize = 128 << 10;

/// Encodes the result of a verb as a response.
pub(crate) fn answer(call: &Call<'_>, answer: Answer) -> Result<Response<Body>> {
    let accept = &call.accept;
    if let Some(audit) = call.audit {
        audited::record(call, audit, &answer);
    }
    match answer {
        Answer::Watch { chunks, content_type } => {
            let mut response = Response::new(Body::Stream(chunks));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            Ok(response)
        }
        Answer::Response(response) => Ok(*response),
        Answer::Stored { code, object } if accept.is_plain_json() && call.endpoint.serves_unchanged(&object) => {
            Ok(compressed(call.headers, bytes(code, "application/json", object.bytes().clone())))
        }
        Answer::Stored { code, object } => {
            let value = call.endpoint.to_served_value(&object);
            one(call, code, value)
        }
        Answer::Value { code, value } => one(call, code, value),
        Answer::Text { code, text: body } => Ok(text(code, body)),
        Answer::WholeList { items, revision } => Ok(list::whole(call, items, revision)),
        Answer::List(list)
            if accept.is_plain_json() && list.objects.iter().all(|o| call.endpoint.is_served_as_stored(o)) =>
        {
            Ok(list::plain(call, list))
        }
        Answer::List(list) if accept.media == Media::Json && !accept.pretty => list::transformed_json(call, list),
        Answer::List(list) => {
            let value = list::transformed(call, &list)?;
            Ok(compressed(call.headers, encode(accept, StatusCode::OK, &value, call.endpoint)?))
        }
    }
}

/// Encodes a single object, transformed if requested.
fn one(call: &Call<'_>, code: StatusCode, value: Value) -> Result<Response<Body>> {
    encode(&call.accept, code, &transformed(call, value)?, call.endpoint)
}

/// Returns a single object in the form that the client accepts.
fn transformed(call: &Call<'_>, value: Value) -> Result<Value> {
    let is_scale = call.target.subresource == "scale" && value["kind"] == "Scale";
    let is_token = call.target.subresource == "token" && value["kind"] == "TokenRequest";
    let own =
        value["kind"] == *call.endpoint.resource.kind || is_token || (is_scale && call.endpoint.custom().is_none());
    let value = match call.accept.transform {
        Transform::None => value,
        _ if !own => value,
        Transform::Table => {
            let include = table::Include::parse(call.query.text("includeObject"))?;
            let metadata = table_metadata(&value);
            let columns = if is_scale { Columns::scale() } else { Columns::of(call.endpoint) };
            table::table_with(&columns, call.endpoint, &[value], include, metadata, true)
        }
        Transform::PartialObjectMetadata => partial(&value),
        // Unstructured objects count as lists until their items are read.
        Transform::PartialObjectMetadataList if call.endpoint.custom().is_some() => {
            return Err(ApiError::unexpected("content is not a list"));
        }
        Transform::PartialObjectMetadataList => {
            let message = format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                go_type(call.endpoint, "")
            );
            return Err(ApiError::not_acceptable(message));
        }
    };
    Ok(if own && call.accept.old_form { old_form(value) } else { value })
}

/// Returns the metadata of a table with one object, which has no version after a dry run.
fn table_metadata(object: &Value) -> Value {
    match &object["metadata"]["resourceVersion"] {
        Value::Null => json!({}),
        version => json!({"resourceVersion": version}),
    }
}

/// Returns a table or metadata in the version that old clients request.
fn old_form(mut value: Value) -> Value {
    value["apiVersion"] = "meta.k8s.io/v1beta1".into();
    for field in ["rows", "items"] {
        let entries = value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        let objects = entries.filter_map(|entry| if field == "rows" { entry.get_mut("object") } else { Some(entry) });
        objects.for_each(old_form_of);
    }
    value
}

/// Changes metadata to the version that old clients request.
fn old_form_of(object: &mut Value) {
    if object["kind"] == "PartialObjectMetadata" {
        object["apiVersion"] = "meta.k8s.io/v1beta1".into();
    }
}

/// Returns whether all responses to a request consist of stored bytes.
pub(crate) fn sends_stored_bytes(call: &Call<'_>) -> bool {
    call.accept.is_plain_json() && call.endpoint.served_as_stored_after() == Revision(0)
}

/// Returns the Go type of a kind, as in error messages: `core.SecretList`.
fn go_type(endpoint: &Endpoint, suffix: &str) -> String {
    format!("{}.{}{suffix}", internal_package(&endpoint.resource.group), endpoint.resource.kind)
}

fn untyped(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    object
}

/// An annotation that `apps/v1` has instead of a field of the internal type.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Returns the metadata of an object as a PartialObjectMetadata. kube-apiserver takes it from the internal type.
pub(crate) fn partial(object: &Value) -> Value {
    let mut metadata = object["metadata"].clone();
    if object["kind"] == "DaemonSet"
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
        && annotations.remove(TEMPLATE_GENERATION).is_some()
        && annotations.is_empty()
    {
        metadata.as_object_mut().map(|metadata| metadata.remove("annotations"));
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn encode(accept: &Representation, code: StatusCode, value: &Value, endpoint: &Endpoint) -> Result<Response<Body>> {
    Ok(match accept.media {
        Media::Json if accept.pretty => bytes(code, "application/json", go_json::encode_pretty(value).into()),
        Media::Json => bytes(code, "application/json", go_json::encode_object(value).into()),
        Media::Yaml => bytes(code, "application/yaml", yaml::to_yaml(value).into()),
        Media::Protobuf => {
            let encoded = protobuf::encode_object(value, endpoint.table)
                .map_err(|error| ApiError::unexpected(error.to_string()))?;
            bytes(code, "application/vnd.kubernetes.protobuf", encoded.into())
        }
    })
}

/// Encodes an error in the accepted form, if errors support it.
pub(crate) fn error(headers: &HeaderMap, uri: &Uri, error: &ApiError) -> Response<Body> {
    if error.timed_out {
        let status = format!(
            r#"{{"metadata":{{}},"status":"Failure","message":"{}","reason":"{}","details":{{}},"code":504}}"#,
            error.message, error.reason
        );
        // The media type is the one that Go derives from the body.
        return bytes(error.code, "text/plain; charset=utf-8", (status + "\n").into());
    }
    let mut response =
        if error.plain { text(error.code, error.message.clone()) } else { encode_status(headers, uri, error) };
    if error.no_sniff {
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    if let Some(seconds) = error.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64()) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn encode_status(headers: &HeaderMap, uri: &Uri, error: &ApiError) -> Response<Body> {
    let status = error.to_status();
    match negotiate::error_media(headers, uri.query()) {
        Media::Json => bytes(error.code, "application/json", go_json::encode_object(&status).into()),
        Media::Yaml => bytes(error.code, "application/yaml", yaml::to_yaml(&status).into()),
        Media::Protobuf => match protobuf::encode_object(&status, windlass_builtins::table()) {
            Ok(encoded) => bytes(error.code, "application/vnd.kubernetes.protobuf", encoded.into()),
            Err(_) => bytes(error.code, "application/json", go_json::encode_object(&status).into()),
        },
    }
}

/// Encodes a value that is not an API object of an endpoint, such as discovery, as JSON or YAML.
pub(crate) fn value(headers: &HeaderMap, uri: &Uri, code: StatusCode, value: &Value) -> Result<Response<Body>> {
    value_as(headers, uri, code, value, "application/json")
}

/// Encodes such a value with another JSON content type.
pub(crate) fn value_as(
    headers: &HeaderMap,
    uri: &Uri,
    code: StatusCode,
    value: &Value,
    json_type: &'static str,
) -> Result<Response<Body>> {
    let response = match negotiate::error_media(headers, uri.query()) {
        Media::Yaml => bytes(code, "application/yaml", yaml::to_yaml(value).into()),
        _ => bytes(code, json_type, go_json::encode(value).into()),
    };
    Ok(compressed(headers, response))
}

/// Returns a response with a JSON body.
pub(crate) fn json(code: StatusCode, value: &Value) -> Response<Body> {
    bytes(code, "application/json", go_json::encode(value).into())
}

/// Returns a response with a plain text body.
pub(crate) fn text(code: StatusCode, body: String) -> Response<Body> {
    let mut response = bytes(code, "text/plain; charset=utf-8", body.into());
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns a response with a body of a known type.
pub(crate) fn bytes(code: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    *response.headers_mut() = HeaderMap::with_capacity(HEADERS);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Returns whether a client accepts compressed bodies.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    codings
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim().split(';').next() == Some("gzip") && !coding.replace(' ', "").ends_with(";q=0"))
}

/// Compresses a response if it is large and the client accepts that.
pub(crate) fn compressed(headers: &HeaderMap, response: Response<Body>) -> Response<Body> {
    let is_large = matches!(response.body(), Body::Full(Some(plain)) if plain.len() >= COMPRESS_ABOVE);
    if !is_large || !accepts_gzip(headers) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Body::Full(Some(plain)) = body else { return Response::from_parts(parts, body) };
    match gzip(&plain) {
        Some(compressed) => {
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
            Response::from_parts(parts, compressed.into())
        }
        None => Response::from_parts(parts, plain.into()),
    }
}

/// Returns the bytes compressed, if that is possible.
pub(crate) fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    let mut compressed = encoder.write_all(plain).and_then(|()| encoder.finish()).ok()?;
    compressed.shrink_to_fit();
    Some(compressed.into())
}

/// Adds `Warning` headers.
pub(crate) fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    // A warning with a line break cannot be a header value and is omitted.
    for warning in warnings.iter().filter(|warning| !warning.chars().any(char::is_control)) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}
