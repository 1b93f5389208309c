//! `application/vnd.kubernetes.protobuf` for built-in kinds, driven by the field numbers of the table.
//!
//! A body consists of the four bytes `k8s\0` and a `runtime.Unknown` message, which names the kind and contains the
//! object's own message. Decoding yields the JSON that Go's encoder would write for the decoded object: zero values are
//! omitted exactly where Go omits them. Encoding yields the bytes of Go's generated code: fields by ascending number,
//! sorted map keys, and zero values of everything that is not a pointer.
//!
//! No input makes decoding panic or recurse deeper than [`MAX_DEPTH`] messages.

use serde_json::Value;
use windlass_schema::types::{Field, Struct, StructId};

use crate::resource::Table;

mod decode;
mod duration;
mod encode;
mod schema_props;
#[cfg(test)]
mod tests;
pub(crate) mod wire;
mod zero;

pub use encode::encode;

/// The first bytes of every body.
pub const PREFIX: &[u8; 4] = b"k8s\0";

/// Maximum nesting depth of messages.
pub const MAX_DEPTH: usize = 100;

/// The only list type that is a message of its own outside of maps.
const VERBS: &str = "v1.Verbs";

/// Reasons why a body could not be decoded or encoded.
#[derive(Debug, thiserror::Error)]
pub enum ProtobufError {
    /// The body does not begin with [`PREFIX`].
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// The envelope names no kind.
    #[error("Object 'Kind' is missing")]
    MissingKind,
    /// The envelope names no version.
    #[error("Object 'apiVersion' is missing")]
    MissingVersion,
    /// The kind is not in the table.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// Group version, such as `apps/v1`.
        api_version: String,
        /// Kind.
        kind: String,
    },
    /// A message ends early.
    #[error("unexpected EOF")]
    UnexpectedEnd,
    /// A number is longer than 64 bits, or a tag is invalid.
    #[error("proto: illegal tag or number")]
    Malformed,
    /// The wire type of a field does not match its type.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WireType {
        /// Wire type found.
        wire_type: u8,
        /// JSON name of the field.
        field: String,
    },
    /// Messages nest deeper than [`MAX_DEPTH`].
    #[error("proto: nesting is too deep")]
    TooDeep,
    /// The bytes of a field are not a value of its type.
    #[error("proto: field {field} has a value that is not its type's")]
    Value {
        /// JSON name of the field.
        field: String,
    },
    /// A JSON value does not match the type of its field.
    #[error("field {field} does not fit its type")]
    DoesNotFit {
        /// JSON name of the field.
        field: String,
    },
}

/// A decoded body.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Group version, such as `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// The object, with `apiVersion` and `kind`.
    pub value: Value,
}

/// Decodes a body of any kind in the table.
///
/// # Errors
/// Returns an error if the bytes are not a valid body.
pub fn decode(bytes: &[u8], table: &Table) -> Result<Decoded, ProtobufError> {
    decode::body(bytes, table, 0)
}

/// Encodes a JSON object that has `apiVersion` and `kind`.
///
/// # Errors
/// Returns an error if the kind is not in the table, or the object does not match its type.
pub fn encode_object(value: &Value, table: &Table) -> Result<Vec<u8>, ProtobufError> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("kind").ok_or(ProtobufError::MissingKind)?;
    let api_version = text("apiVersion").ok_or(ProtobufError::MissingVersion)?;
    let ty = table
        .kind(api_version, kind)
        .ok_or_else(|| ProtobufError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
    Ok(envelope(api_version, kind, &encode(value, ty, table)?))
}

/// Wraps an object's message in the envelope that names its kind.
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    wire::put_bytes(&mut type_meta, 1, api_version.as_bytes());
    wire::put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut body = Vec::with_capacity(message.len() + type_meta.len() + 20);
    body.extend_from_slice(PREFIX);
    wire::put_bytes(&mut body, 1, &type_meta);
    wire::put_bytes(&mut body, 2, message);
    wire::put_bytes(&mut body, 3, b"");
    wire::put_bytes(&mut body, 4, b"");
    body
}

/// Returns the message of a watch event whose object is an encoded body. In a stream, it follows its length as four
/// big-endian bytes.
pub fn watch_event(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 6);
    wire::put_bytes(&mut raw, 1, object);
    let mut message = Vec::with_capacity(raw.len() + event_type.len() + 10);
    wire::put_bytes(&mut message, 1, event_type.as_bytes());
    wire::put_bytes(&mut message, 2, &raw);
    message
}

/// A message: a struct, or an embedded struct of it that protobuf nests.
#[derive(Clone, Copy)]
struct Message<'a> {
    id: StructId,
    structure: &'a Struct,
    /// Position among the struct's inlined fields; `None` for the struct itself.
    inline: Option<usize>,
}

/// The meaning of a field number.
enum Member<'a> {
    Field(&'a Field),
    Inline(Message<'a>),
}

impl<'a> Message<'a> {
    fn of(id: StructId, table: &'a Table) -> Self {
        Self { id, structure: table.types.get(id), inline: None }
    }

    /// Returns the member with a field number.
    fn member(self, number: u32) -> Option<Member<'a>> {
        if self.structure.inlines.is_empty() {
            return self.structure.fields.iter().find(|field| field.proto == number).map(Member::Field);
        }
        self.members().find(|(have, _)| *have == number).map(|(_, member)| member)
    }

    /// Returns the members with their field numbers.
    fn members(self) -> impl Iterator<Item = (u32, Member<'a>)> {
        let inlines = &self.structure.inlines;
        let nested = inlines.iter().enumerate().filter_map(move |(position, inline)| {
            let parent = inlines[..position].iter().rposition(|p| p.start <= inline.start && inline.end <= p.end);
            let message = Self { inline: Some(position), ..self };
            (parent == self.inline).then_some((inline.proto, Member::Inline(message)))
        });
        let fields = self.structure.fields.iter().zip(0u32..).filter_map(move |(field, position)| {
            let parent = inlines.iter().rposition(|p| p.start <= position && position < p.end);
            (field.proto > 0 && parent == self.inline).then_some((field.proto, Member::Field(field)))
        });
        nested.chain(fields)
    }
}
