//! Lists: from the stored bytes if the client accepts these unchanged, else transformed. JSON is encoded while it is sent.

use std::{sync::Arc, vec};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::{json as go_json, printer::TableBudget};

use super::{COMPRESS_ABOVE, accepts_gzip, bytes, go_type, old_form_of, partial, table, untyped};
use crate::{
    body::Body,
    call::{Call, ListAnswer},
    negotiate::Transform,
    pieces::{Gzip, HeldBytes, PIECE, room_for},
    registry::Endpoint,
    status::{ApiError, Result},
    storage::{StoredObject, WholeList, write_item},
};

/// Encodes a list as JSON, from the stored bytes.
pub(super) fn plain(call: &Call<'_>, list: ListAnswer) -> Response<Body> {
    let head = list_head(call.endpoint, &list_metadata(call.endpoint, &list));
    let typed = call.endpoint.custom().is_some();
    let write = move |object: &StoredObject, out: &mut Vec<u8>| write_item(object, typed, out);
    respond(call, head.into(), items(call, list.objects, write))
}

/// Encodes a list of everything under a prefix as JSON, from the stored bytes.
pub(super) fn whole(call: &Call<'_>, items: WholeList, revision: u64) -> Response<Body> {
    respond(call, whole_head(call.endpoint, revision).into(), items)
}

/// Returns the beginning of a list of everything, up to its items.
fn whole_head(endpoint: &Endpoint, revision: u64) -> String {
    list_head(endpoint, &plain_metadata(endpoint, revision))
}

/// Returns a list of everything under a prefix as one string.
pub(super) fn whole_text(endpoint: &Endpoint, items: WholeList, revision: u64) -> Vec<u8> {
    let mut text = whole_head(endpoint, revision).into_bytes();
    items.for_each(|piece| text.extend_from_slice(&piece));
    text.extend_from_slice(LIST_END);
    text
}

/// Encodes a list as JSON, transformed.
pub(super) fn transformed_json(call: &Call<'_>, list: ListAnswer) -> Result<Response<Body>> {
    let mut form = ItemForm::of(call)?;
    let mut without_items = envelope(call, &list, &form, Vec::new());
    if form.is_null_if_empty() && list.objects.is_empty() {
        without_items["items"] = Value::Null;
        return Ok(bytes(StatusCode::OK, "application/json", go_json::encode_object(&without_items).into()));
    }
    // The items are the last field.
    let mut head = go_json::encode_object(&without_items);
    head.truncate(head.len() - LIST_END.len());
    let endpoint = call.endpoint.clone();
    let (plain, typed) = (call.accept.is_plain_json(), endpoint.custom().is_some());
    let write = move |object: &StoredObject, out: &mut Vec<u8>| {
        if plain && endpoint.serves_unchanged(object) {
            return write_item(object, typed, out);
        }
        let item = form.item(&endpoint, endpoint.to_served_value(object));
        out.append(&mut go_json::encode(&item));
    };
    Ok(respond(call, head.into(), items(call, list.objects, write)))
}

/// Returns the beginning of a list, up to its items.
fn list_head(endpoint: &Endpoint, metadata: &Value) -> String {
    let (kind, api_version) = (endpoint.list_kind(), endpoint.resource.api_version());
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#)
}

const LIST_END: &[u8] = b"]}";
/// The bytes of objects that are turned into one piece.
const READ_MAX: usize = 1 << 20;

/// Returns a response with a list. A long one is encoded and compressed while it is sent.
fn respond(call: &Call<'_>, head: Bytes, items: impl Iterator<Item = Bytes> + Send + 'static) -> Response<Body> {
    let mut pieces = std::iter::once(head).chain(items).chain(std::iter::once(Bytes::from_static(LIST_END)));
    let mut response = bytes(StatusCode::OK, "application/json", Bytes::new());
    let (mut first, mut size) = (Vec::new(), 0);
    while size < COMPRESS_ABOVE {
        let Some(piece) = pieces.next() else {
            *response.body_mut() = Bytes::from(first.concat()).into();
            return response;
        };
        size += piece.len();
        first.push(piece);
    }
    let pieces = first.into_iter().chain(pieces);
    *response.body_mut() = if accepts_gzip(call.headers) {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        stream(Gzip::new(pieces, call.server.metrics.lists.clone()))
    } else {
        stream(pieces)
    };
    response
}

fn stream(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    Body::Stream(Box::pin(futures_util::stream::iter(pieces)))
}

/// Returns objects as the items of a list, encoded in pieces of about [`PIECE`] bytes.
fn items<W>(call: &Call<'_>, objects: Vec<Arc<StoredObject>>, write: W) -> Items<W>
where
    W: FnMut(&StoredObject, &mut Vec<u8>),
{
    Items { objects: objects.into_iter(), write, first: true, held: call.server.metrics.lists.clone() }
}

struct Items<W> {
    objects: vec::IntoIter<Arc<StoredObject>>,
    write: W,
    first: bool,
    held: HeldBytes,
}

impl<W: FnMut(&StoredObject, &mut Vec<u8>)> Iterator for Items<W> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let first = self.objects.as_slice().first()?;
        let mut out = Vec::with_capacity(room_for(first.size(), self.objects.len()));
        let mut read = 0;
        // Rows of tables are much shorter than their objects.
        while out.len() < PIECE && read < READ_MAX {
            let Some(object) = self.objects.next() else { break };
            read += object.size();
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            (self.write)(&object, &mut out);
        }
        Some(self.held.hold(out))
    }
}

/// Returns the metadata of a list without pages. Lists of custom resources have an empty `continue`.
fn plain_metadata(endpoint: &Endpoint, revision: u64) -> Value {
    let revision = revision.to_string();
    match endpoint.custom() {
        Some(_) => json!({"continue": "", "resourceVersion": revision}),
        None => json!({"resourceVersion": revision}),
    }
}

fn list_metadata(endpoint: &Endpoint, list: &ListAnswer) -> Value {
    let mut metadata = plain_metadata(endpoint, list.revision);
    if let Some(token) = &list.continue_token {
        metadata["continue"] = token.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

/// The form of the items of a list.
struct ItemForm {
    kind: ItemKind,
    /// Whether tables and metadata have the version that old clients request.
    old: bool,
}

enum ItemKind {
    /// Complete objects, with kind and apiVersion or without.
    Object { typed: bool },
    /// Metadata only, with kind and apiVersion or without.
    Metadata { typed: bool },
    /// Rows of a table.
    Row { include: table::Include, now: Timestamp, budget: TableBudget },
}

impl ItemForm {
    /// Returns the form that the client accepts.
    fn of(call: &Call<'_>) -> Result<Self> {
        let kind = match call.accept.transform {
            Transform::None => ItemKind::Object { typed: call.endpoint.custom().is_some() },
            Transform::Table => {
                let include = table::Include::parse(call.query.text("includeObject"))?;
                ItemKind::Row { include, now: windlass_clock::now(), budget: TableBudget::default() }
            }
            Transform::PartialObjectMetadataList => ItemKind::Metadata { typed: !call.accept.replaces_protobuf },
            Transform::PartialObjectMetadata => {
                let message = format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{})",
                    go_type(call.endpoint, "List")
                );
                return Err(ApiError::not_acceptable(message));
            }
        };
        Ok(Self { kind, old: call.accept.old_form })
    }

    /// Returns whether the items of an empty list are null.
    fn is_null_if_empty(&self) -> bool {
        matches!(self.kind, ItemKind::Metadata { .. })
    }

    /// Returns an object as an item.
    fn item(&mut self, endpoint: &Endpoint, object: Value) -> Value {
        let mut item = match &mut self.kind {
            ItemKind::Object { typed: true } => object,
            ItemKind::Object { typed: false } => untyped(object),
            ItemKind::Metadata { typed: true } => partial(&object),
            ItemKind::Metadata { typed: false } => untyped(partial(&object)),
            ItemKind::Row { include, now, budget } => {
                table::Columns::at(endpoint, *now).row(endpoint, &object, *include, budget)
            }
        };
        if self.old {
            old_form_of(match self.kind {
                ItemKind::Row { .. } => &mut item["object"],
                ItemKind::Object { .. } | ItemKind::Metadata { .. } => &mut item,
            });
        }
        item
    }
}

/// Returns a list with these items, which are its last field.
fn envelope(call: &Call<'_>, list: &ListAnswer, form: &ItemForm, items: Vec<Value>) -> Value {
    let endpoint = call.endpoint;
    let mut metadata = list_metadata(endpoint, list);
    if call.accept.transform != Transform::None
        && list.continue_token.is_none()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("continue");
    }
    let mut list = match &form.kind {
        ItemKind::Object { .. } => json!({
            "kind": endpoint.list_kind(), "apiVersion": endpoint.resource.api_version(),
            "metadata": metadata, "items": items,
        }),
        ItemKind::Metadata { .. } => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
        }),
        ItemKind::Row { now, .. } => table::envelope(metadata, table::Columns::at(endpoint, *now).definitions(), items),
    };
    if form.old {
        list["apiVersion"] = "meta.k8s.io/v1beta1".into();
    }
    list
}

/// Returns a list as a value: complete objects, a table, or metadata.
pub(super) fn transformed(call: &Call<'_>, list: &ListAnswer) -> Result<Value> {
    let mut form = ItemForm::of(call)?;
    let objects = list.objects.iter().map(|object| call.endpoint.to_served_value(object));
    let items = objects.map(|object| form.item(call.endpoint, object)).collect();
    let mut value = envelope(call, list, &form, items);
    if form.is_null_if_empty() && list.objects.is_empty() {
        value["items"] = Value::Null;
    }
    Ok(value)
}
