//! The objects of requests and responses in events.

use std::{
    io::Read as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::read::GzDecoder;
use futures_util::Stream;
use http::{Response, header::CONTENT_ENCODING};
use serde_json::Value;
use windlass_schema::{json as go_json, yaml};

use super::RequestAudit;
use crate::body::Body;

/// Returns an object, the items of a list or the rows of a table without managed fields.
pub(super) fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    remove(&mut object);
    for item in object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        remove(item);
    }
    for row in object.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        row.get_mut("object").into_iter().for_each(remove);
    }
    object
}

fn remove(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Returns a patch as JSON. An apply may be YAML, for which kube-apiserver loses the event. `None` if it is neither.
pub(super) fn patch(patch: &Bytes) -> Option<Bytes> {
    let value = match go_json::parse(patch) {
        Ok(document) => document.value,
        Err(_) => yaml::parse(patch).ok()?.value,
    };
    // Encoded again, so that an event is one line regardless of what the client sends.
    Some(go_json::encode(&value).into())
}

/// Returns the object in the body of a response: JSON or YAML, perhaps compressed.
pub(super) fn of_body(response: &Response<Body>) -> Option<Value> {
    let Body::Full(Some(bytes)) = response.body() else { return None };
    let mut plain = Vec::new();
    let bytes = match response.headers().contains_key(CONTENT_ENCODING) {
        true => {
            GzDecoder::new(&**bytes).read_to_end(&mut plain).ok()?;
            &*plain
        }
        false => bytes,
    };
    match go_json::parse(bytes) {
        Ok(document) => Some(document.value),
        Err(_) => Some(yaml::parse(bytes).ok()?.value),
    }
}

/// A stream that keeps the audit of its request until it ends.
pub(super) struct Kept<T> {
    pub(super) chunks: Pin<Box<dyn Stream<Item = T> + Send>>,
    pub(super) _kept: Arc<RequestAudit>,
}

impl<T> Stream for Kept<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.chunks.as_mut().poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}
