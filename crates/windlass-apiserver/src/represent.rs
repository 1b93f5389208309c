//! Answers in the form the client asked for: JSON, YAML or protobuf; whole, as a Table, or metadata only.

mod table;

use std::{io::Write, sync::Arc};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use serde_json::{Value, json};
use windlass_builtins::protobuf;
use windlass_schema::{json as go_json, yaml};

use crate::{
    body::Body,
    call::{Answer, Call, ListAnswer},
    negotiate::{self, Media, Representation, Transform},
    registry::Endpoint,
    status::{ApiError, Result},
    storage::{Change, ListBody, StoredObject, write_frame},
};

/// How much of a long list is written at once: below the size at which allocators ask the system for fresh pages.
const CHUNK: usize = 64 << 10;
/// A list of at most this size is kept for the next one who asks.
const KEEP_BELOW: usize = 16 << 20;
/// Bodies above this size are compressed for clients that accept it.
const COMPRESS_ABOVE: usize = 128 << 10;

/// An answer of a verb as a response.
pub(crate) fn answer(call: &Call<'_>, answer: Answer) -> Result<Response<Body>> {
    let accept = &call.accept;
    match answer {
        Answer::Watch { chunks, content_type } => {
            let mut response = Response::new(Body::Stream(chunks));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            Ok(response)
        }
        Answer::Stored { code, object } if sends_stored_bytes(call) => {
            Ok(bytes(code, "application/json", object.bytes().clone()))
        }
        Answer::Stored { code, object } => {
            let value = call.endpoint.serve(object.to_value());
            one(call, code, value)
        }
        Answer::Value { code, value } => one(call, code, value),
        Answer::Text { code, text: body } => Ok(text(code, body)),
        Answer::KnownList { body, revision } => {
            let head = list_head(call.endpoint, &json!({"resourceVersion": revision.to_string()}));
            Ok(list_response(head, (0..body.chunks.len()).map(move |index| body.chunks[index].clone())))
        }
        Answer::List(list) if sends_stored_bytes(call) => Ok(plain_list(call, list)),
        Answer::List(list) => {
            let value = transformed_list(call, &list)?;
            Ok(compressed(call.headers, encode(accept, StatusCode::OK, &value, call.endpoint)?))
        }
    }
}

/// A single object, transformed if asked for.
fn one(call: &Call<'_>, code: StatusCode, value: Value) -> Result<Response<Body>> {
    let own = value["kind"] == *call.endpoint.resource.kind;
    let value = match call.accept.transform {
        Transform::None => value,
        _ if !own => value,
        Transform::Table => {
            let include = table::Include::parse(call.query.text("includeObject"))?;
            let revision = value["metadata"]["resourceVersion"].clone();
            table::table(call.endpoint, &[value], include, json!({"resourceVersion": revision}), true)
        }
        Transform::PartialObjectMetadata => partial(&value),
        Transform::PartialObjectMetadataList => {
            let message = format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                go_type(call.endpoint, "")
            );
            return Err(ApiError::not_acceptable(message));
        }
    };
    encode(&call.accept, code, &value, call.endpoint)
}

/// Whether the answer is made of the bytes that are stored.
pub(crate) fn sends_stored_bytes(call: &Call<'_>) -> bool {
    call.accept.is_plain_json() && call.endpoint.serves_stored_form()
}

/// A list as JSON, from the stored bytes.
fn plain_list(call: &Call<'_>, list: ListAnswer) -> Response<Body> {
    let endpoint = call.endpoint;
    let size: usize = list.objects.iter().map(|object| object.size()).sum();
    let head = list_head(endpoint, &list_metadata(&list));
    let whole = list.whole;
    let mut items = Items { objects: list.objects.into_iter(), first: true };
    if size < COMPRESS_ABOVE || accepts_gzip(call.headers) {
        let mut out = head.into_bytes();
        out.reserve(size);
        items.write(usize::MAX, &mut out);
        out.extend_from_slice(LIST_END);
        return compressed(call.headers, bytes(StatusCode::OK, "application/json", out.into()));
    }
    match whole {
        Some((prefix, revision)) if size <= KEEP_BELOW => {
            let chunks: Vec<Bytes> = items.collect();
            endpoint.cache.keep_list(Arc::new(ListBody { prefix, revision, chunks: chunks.clone() }));
            list_response(head, chunks.into_iter())
        }
        _ => list_response(head, items),
    }
}

/// What a list begins with, up to its items.
fn list_head(endpoint: &Endpoint, metadata: &Value) -> String {
    let resource = endpoint.resource;
    let (kind, api_version) = (&resource.kind, resource.api_version());
    format!(r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{metadata},"items":["#)
}

const LIST_END: &[u8] = b"]}";

/// A long list, sent in pieces.
fn list_response(head: String, items: impl Iterator<Item = Bytes> + Send + 'static) -> Response<Body> {
    let chunks = std::iter::once(head.into()).chain(items).chain(std::iter::once(Bytes::from_static(LIST_END)));
    let mut response = bytes(StatusCode::OK, "application/json", Bytes::new());
    *response.body_mut() = Body::Stream(Box::pin(futures_util::stream::iter(chunks)));
    response
}

/// The items of a list, encoded in pieces of about [`CHUNK`] bytes.
struct Items {
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    first: bool,
}

impl Items {
    /// Writes items until there are enough bytes or none are left.
    fn write(&mut self, enough: usize, out: &mut Vec<u8>) {
        while out.len() < enough {
            let Some(object) = self.objects.next() else { return };
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            object.write_untyped(out);
        }
    }
}

impl Iterator for Items {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::with_capacity(CHUNK + (CHUNK >> 3));
        self.write(CHUNK, &mut out);
        (!out.is_empty()).then(|| out.into())
    }
}

fn list_metadata(list: &ListAnswer) -> Value {
    let mut metadata = json!({"resourceVersion": list.revision.to_string()});
    if let Some(token) = &list.continue_token {
        metadata["continue"] = token.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

fn transformed_list(call: &Call<'_>, list: &ListAnswer) -> Result<Value> {
    let endpoint = call.endpoint;
    let resource = endpoint.resource;
    let objects = list.objects.iter().map(|object| endpoint.serve(object.to_value()));
    let metadata = list_metadata(list);
    Ok(match call.accept.transform {
        Transform::None => {
            let items: Vec<Value> = objects.map(untyped).collect();
            json!({
                "kind": format!("{}List", resource.kind), "apiVersion": resource.api_version(),
                "metadata": metadata, "items": items,
            })
        }
        Transform::Table => {
            let include = table::Include::parse(call.query.text("includeObject"))?;
            table::table(endpoint, &objects.collect::<Vec<_>>(), include, metadata, true)
        }
        Transform::PartialObjectMetadataList => {
            let items: Vec<Value> = objects.map(|object| partial(&object)).collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
            })
        }
        Transform::PartialObjectMetadata => {
            let message = format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{})",
                go_type(endpoint, "List")
            );
            return Err(ApiError::not_acceptable(message));
        }
    })
}

/// The Go type of a kind, as messages name it: `core.SecretList`.
fn go_type(endpoint: &Endpoint, suffix: &str) -> String {
    let package = match endpoint.resource.group.split('.').next().unwrap_or_default() {
        "" => "core",
        first => first,
    };
    format!("{package}.{}{suffix}", endpoint.resource.kind)
}

fn untyped(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    object
}

/// The metadata of an object, as an object of its own.
pub(crate) fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
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

/// A failure in the form the client asked for, as far as errors have it.
pub(crate) fn error(headers: &HeaderMap, uri: &Uri, error: &ApiError) -> Response<Body> {
    if error.plain {
        return text(error.code, error.message.clone());
    }
    let status = error.to_status();
    let mut response = match negotiate::error_media(headers, uri.query()) {
        Media::Json => bytes(error.code, "application/json", go_json::encode_object(&status).into()),
        Media::Yaml => bytes(error.code, "application/yaml", yaml::to_yaml(&status).into()),
        Media::Protobuf => match protobuf::encode_object(&status, windlass_builtins::table()) {
            Ok(encoded) => bytes(error.code, "application/vnd.kubernetes.protobuf", encoded.into()),
            Err(_) => bytes(error.code, "application/json", go_json::encode_object(&status).into()),
        },
    };
    if let Some(seconds) = error.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64()) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// A value that is not an API object of an endpoint (discovery), as JSON or YAML.
pub(crate) fn value(headers: &HeaderMap, uri: &Uri, code: StatusCode, value: &Value) -> Result<Response<Body>> {
    value_as(headers, uri, code, value, "application/json")
}

/// The same with another JSON content type.
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

/// A JSON body.
pub(crate) fn json(code: StatusCode, value: &Value) -> Response<Body> {
    bytes(code, "application/json", go_json::encode(value).into())
}

/// A plain text body.
pub(crate) fn text(code: StatusCode, body: String) -> Response<Body> {
    let mut response = bytes(code, "text/plain; charset=utf-8", body.into());
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A body of a known type.
pub(crate) fn bytes(code: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    codings
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim().split(';').next() == Some("gzip") && !coding.replace(' ', "").ends_with(";q=0"))
}

/// The response compressed, if it is large and the client accepts that.
pub(crate) fn compressed(headers: &HeaderMap, response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let Body::Full(Some(plain)) = body else { return Response::from_parts(parts, body) };
    if !accepts_gzip(headers) || plain.len() < COMPRESS_ABOVE {
        return Response::from_parts(parts, plain.into());
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    let compressed = encoder.write_all(&plain).and_then(|()| encoder.finish());
    match compressed {
        Ok(compressed) => {
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
            Response::from_parts(parts, Bytes::from(compressed).into())
        }
        Err(_) => Response::from_parts(parts, plain.into()),
    }
}

/// `Warning` headers.
pub(crate) fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

/// How a watch writes its events.
pub(crate) struct EventFormat {
    transform: Transform,
    include: table::Include,
    /// Whether events are protobuf messages.
    protobuf: bool,
    /// Whether events are the stored bytes.
    plain: bool,
    headers_sent: bool,
}

impl EventFormat {
    pub(crate) fn negotiated(call: &Call<'_>) -> Result<Self> {
        let include = table::Include::parse(call.query.text("includeObject"))?;
        let transform = call.accept.transform;
        let protobuf = call.accept.media == Media::Protobuf;
        let plain = !protobuf && transform == Transform::None && call.endpoint.serves_stored_form();
        Ok(Self { transform, include, protobuf, plain, headers_sent: false })
    }

    pub(crate) fn content_type(&self) -> &'static str {
        if self.protobuf { "application/vnd.kubernetes.protobuf;stream=watch" } else { "application/json" }
    }

    /// Whether events can be shared between watchers as they stand in the log.
    pub(crate) fn is_plain_json(&self) -> bool {
        self.plain
    }

    /// Writes a change of an object.
    pub(crate) fn write(&mut self, endpoint: &Endpoint, change: Change, object: &StoredObject, out: &mut Vec<u8>) {
        if self.plain {
            write_frame(change, object, out);
        } else {
            let event = self.event(endpoint, change.as_str(), endpoint.serve(object.to_value()));
            out.extend_from_slice(&event);
        }
    }

    /// An event with any object.
    pub(crate) fn event(&mut self, endpoint: &Endpoint, kind: &str, object: Value) -> Bytes {
        let object = match self.transform {
            _ if kind == "ERROR" => object,
            Transform::Table => {
                let revision = object["metadata"]["resourceVersion"].clone();
                let headers = !std::mem::replace(&mut self.headers_sent, true);
                table::table(endpoint, &[object], self.include, json!({"resourceVersion": revision}), headers)
            }
            Transform::PartialObjectMetadata | Transform::PartialObjectMetadataList => partial(&object),
            Transform::None => object,
        };
        if self.protobuf {
            return protobuf_event(endpoint, kind, &object);
        }
        let mut out = go_json::encode(&json!({"type": kind, "object": object}));
        out.push(b'\n');
        out.into()
    }
}

/// An event as a length-delimited protobuf message.
fn protobuf_event(endpoint: &Endpoint, kind: &str, object: &Value) -> Bytes {
    let encoded = protobuf::encode_object(object, endpoint.table).unwrap_or_default();
    let message = protobuf::watch_event(kind, &encoded);
    let mut out = Vec::with_capacity(message.len() + 4);
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(&message);
    out.into()
}
