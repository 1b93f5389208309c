//! Lists: concatenated from the stored bytes if the client accepts these unchanged, else transformed.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use windlass_store::Revision;

use super::{COMPRESS_ABOVE, accepts_gzip, bytes, compressed, go_type, partial, table, untyped};
use crate::{
    body::Body,
    call::{Call, ListAnswer},
    negotiate::Transform,
    registry::Endpoint,
    status::{ApiError, Result},
    storage::{ListBody, StoredObject},
};

/// The size of the pieces of a long list: below the size above which allocators request fresh pages from the system.
const CHUNK: usize = 64 << 10;
/// The size up to which a list is kept for the next request.
const KEEP_BELOW: usize = 16 << 20;

/// Encodes a list as JSON, from the stored bytes.
pub(super) fn plain(call: &Call<'_>, list: ListAnswer) -> Response<Body> {
    let endpoint = call.endpoint;
    let size: usize = list.objects.iter().map(|object| object.size()).sum();
    let head = list_head(endpoint, &list_metadata(endpoint, &list));
    let whole = list.whole;
    let mut items = Items { objects: list.objects.into_iter(), typed: endpoint.custom().is_some(), first: true };
    if size < COMPRESS_ABOVE || accepts_gzip(call.headers) {
        let mut out = head.into_bytes();
        out.reserve(size);
        items.write(usize::MAX, &mut out);
        out.extend_from_slice(LIST_END);
        return compressed(call.headers, bytes(StatusCode::OK, "application/json", out.into()));
    }
    match whole {
        Some((prefix, revision)) if size <= KEEP_BELOW && endpoint.served_as_stored_after() == Revision(0) => {
            let chunks: Vec<Bytes> = items.collect();
            endpoint.cache.keep_list(Arc::new(ListBody { prefix, revision, chunks: chunks.clone() }));
            list_response(head, chunks.into_iter())
        }
        _ => list_response(head, items),
    }
}

/// Returns a list that was kept from an earlier request.
pub(super) fn known(endpoint: &Endpoint, body: Arc<ListBody>, revision: u64) -> Response<Body> {
    let head = list_head(endpoint, &plain_metadata(endpoint, revision));
    list_response(head, (0..body.chunks.len()).map(move |index| body.chunks[index].clone()))
}

/// Returns the beginning of a list, up to its items.
fn list_head(endpoint: &Endpoint, metadata: &Value) -> String {
    let (kind, api_version) = (endpoint.list_kind(), endpoint.resource.api_version());
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#)
}

const LIST_END: &[u8] = b"]}";

/// Returns a response with a long list, sent in pieces.
fn list_response(head: String, items: impl Iterator<Item = Bytes> + Send + 'static) -> Response<Body> {
    let chunks = std::iter::once(head.into()).chain(items).chain(std::iter::once(Bytes::from_static(LIST_END)));
    let mut response = bytes(StatusCode::OK, "application/json", Bytes::new());
    *response.body_mut() = Body::Stream(Box::pin(futures_util::stream::iter(chunks)));
    response
}

/// The items of a list, encoded in pieces of about [`CHUNK`] bytes.
struct Items {
    /// Whether items have kind and apiVersion, as those of custom resources do.
    typed: bool,
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    first: bool,
}

impl Items {
    /// Writes items until there are `enough` bytes or no items left.
    fn write(&mut self, enough: usize, out: &mut Vec<u8>) {
        while out.len() < enough {
            let Some(object) = self.objects.next() else { return };
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            if self.typed {
                out.extend_from_slice(object.bytes());
            } else {
                object.write_untyped(out);
            }
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

/// Returns a list as a value: complete objects, a table, or metadata.
pub(super) fn transformed(call: &Call<'_>, list: &ListAnswer) -> Result<Value> {
    let endpoint = call.endpoint;
    let objects = list.objects.iter().map(|object| endpoint.to_served_value(object));
    let mut metadata = list_metadata(endpoint, list);
    if call.accept.transform != Transform::None
        && list.continue_token.is_none()
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("continue");
    }
    Ok(match call.accept.transform {
        Transform::None => {
            let typed = endpoint.custom().is_some();
            let items: Vec<Value> = objects.map(|object| if typed { object } else { untyped(object) }).collect();
            json!({
                "kind": endpoint.list_kind(), "apiVersion": endpoint.resource.api_version(),
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
