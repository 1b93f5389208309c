//! Watch events in the accepted form.

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_builtins::protobuf;
use windlass_schema::json as go_json;

use super::{old_form, partial, table};
use crate::{
    call::Call,
    negotiate::{Media, Transform},
    registry::Endpoint,
    status::Result,
    storage::{Change, StoredObject, write_frame, write_metadata_frame},
};

/// Encodes the events of a watch.
pub(crate) struct EventFormat {
    transform: Transform,
    include: table::Include,
    /// Whether events are protobuf messages.
    protobuf: bool,
    /// Whether events are the stored bytes, if these are served unchanged.
    plain: bool,
    /// Whether events are the metadata from the stored bytes, if these are served unchanged.
    metadata: bool,
    headers_sent: bool,
    old_form: bool,
}

impl EventFormat {
    pub(crate) fn negotiated(call: &Call<'_>) -> Result<Self> {
        let include = table::Include::parse(call.query.text("includeObject"))?;
        let transform = call.accept.transform;
        let protobuf = call.accept.media == Media::Protobuf;
        let plain = !protobuf && transform == Transform::None;
        let old_form = call.accept.old_form;
        let metadata = !protobuf
            && !old_form
            && matches!(transform, Transform::PartialObjectMetadata | Transform::PartialObjectMetadataList);
        Ok(Self { transform, include, protobuf, plain, metadata, headers_sent: false, old_form })
    }

    pub(crate) fn content_type(&self) -> &'static str {
        if self.protobuf { "application/vnd.kubernetes.protobuf;stream=watch" } else { "application/json" }
    }

    /// Returns whether watchers can share the events of the log.
    pub(crate) fn is_plain_json(&self) -> bool {
        self.plain
    }

    /// Writes the event of a changed object.
    pub(crate) fn write(&mut self, endpoint: &Endpoint, change: Change, object: &StoredObject, out: &mut Vec<u8>) {
        let as_stored = (self.plain || self.metadata) && endpoint.serves_unchanged(object);
        if self.plain && as_stored {
            write_frame(change, object, out);
        } else if self.metadata && as_stored {
            write_metadata_frame(change, object, out);
        } else {
            let event = self.event(endpoint, change.as_str(), endpoint.to_served_value(object));
            out.extend_from_slice(&event);
        }
    }

    /// Encodes an event with any object.
    pub(crate) fn event(&mut self, endpoint: &Endpoint, kind: &str, object: Value) -> Bytes {
        let object = match self.transform {
            _ if kind == "ERROR" => object,
            Transform::Table => {
                let revision = object["metadata"]["resourceVersion"].clone();
                let headers = !std::mem::replace(&mut self.headers_sent, true);
                // Clients find the annotation of the first bookmark in its object.
                let annotated = kind == "BOOKMARK" && object["metadata"]["annotations"].is_object();
                let include = match self.include {
                    table::Include::None if annotated => table::Include::Metadata,
                    include => include,
                };
                table::table(endpoint, &[object], include, json!({"resourceVersion": revision}), headers)
            }
            Transform::PartialObjectMetadata | Transform::PartialObjectMetadataList => partial(&object),
            Transform::None => object,
        };
        let object = if self.old_form && kind != "ERROR" { old_form(object) } else { object };
        if self.protobuf {
            return protobuf_event(endpoint, kind, &object);
        }
        let mut out = go_json::encode(&json!({"type": kind, "object": object}));
        out.push(b'\n');
        out.into()
    }
}

/// Encodes an event as a length-delimited protobuf message.
fn protobuf_event(endpoint: &Endpoint, kind: &str, object: &Value) -> Bytes {
    let encoded = protobuf::encode_object(object, endpoint.table).unwrap_or_default();
    let message = protobuf::watch_event(kind, &encoded);
    let mut out = Vec::with_capacity(message.len() + 4);
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(&message);
    out.into()
}
