//! `application/vnd.kubernetes.protobuf` for built-in kinds, driven by the field numbers of the table.
//!
//! A body is the four bytes `k8s\0`, then a `runtime.Unknown` message that names the kind and carries the object's own
//! message. Decoding gives the JSON that Go's encoder would write for the decoded object: zero values that Go leaves
//! out are left out, the others are there. Encoding writes what Go's generated code writes, byte for byte: fields by
//! ascending number, map keys sorted, zero values of all that is not a pointer.
//!
//! Decoding never panics and never recurses deeper than [`MAX_DEPTH`] messages, whatever the bytes.

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

/// The bytes every body begins with.
pub const PREFIX: &[u8; 4] = b"k8s\0";

/// How deep messages may nest.
pub const MAX_DEPTH: usize = 100;

/// The one list type that is a message of its own outside of maps.
const VERBS: &str = "v1.Verbs";

/// Why a body could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ProtobufError {
    /// The body does not begin with [`PREFIX`].
    #[error("provided data does not appear to be a protobuf message, expected prefix {:?}", PREFIX)]
    Prefix,
    /// The envelope names no kind.
    #[error("Object 'Kind' is missing")]
    MissingKind,
    /// The envelope names no version.
    #[error("Object 'apiVersion' is missing")]
    MissingVersion,
    /// The table does not know the kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The group version, such as `apps/v1`.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A message ends early.
    #[error("unexpected EOF")]
    UnexpectedEnd,
    /// A number is longer than 64 bits, or a tag is not one.
    #[error("proto: illegal tag or number")]
    Malformed,
    /// A field has another wire type than its number says.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WireType {
        /// The type found.
        wire_type: u8,
        /// The JSON name of the field.
        field: String,
    },
    /// Messages nest deeper than [`MAX_DEPTH`].
    #[error("proto: nesting is too deep")]
    TooDeep,
    /// The bytes of a field are no value of its type.
    #[error("proto: field {field} has a value that is not its type's")]
    Value {
        /// The JSON name of the field.
        field: String,
    },
    /// A JSON value does not fit the type it should be written as.
    #[error("field {field} does not fit its type")]
    DoesNotFit {
        /// The JSON name of the field.
        field: String,
    },
}

/// A decoded body.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The group version, such as `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The object, with `apiVersion` and `kind`.
    pub value: Value,
}

/// Reads a body of any kind of the table.
///
/// # Errors
/// When the bytes are no such body.
pub fn decode(bytes: &[u8], table: &Table) -> Result<Decoded, ProtobufError> {
    decode::body(bytes, table, 0)
}

/// Writes a body for a JSON object that names its `apiVersion` and `kind`.
///
/// # Errors
/// When the table does not know the kind, or the object does not fit it.
pub fn encode_object(value: &Value, table: &Table) -> Result<Vec<u8>, ProtobufError> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("kind").ok_or(ProtobufError::MissingKind)?;
    let api_version = text("apiVersion").ok_or(ProtobufError::MissingVersion)?;
    let ty = table
        .kind(api_version, kind)
        .ok_or_else(|| ProtobufError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
    Ok(envelope(api_version, kind, &encode(value, ty, table)?))
}

/// Puts an object's message into the envelope that names its kind.
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

/// The message of a watch event whose object is an encoded body. A stream puts its length before it, four bytes,
/// the most significant first.
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
    /// The position in the struct's inlines; none for the struct itself.
    inline: Option<usize>,
}

/// What a field number of a message stands for.
enum Member<'a> {
    Field(&'a Field),
    Inline(Message<'a>),
}

impl<'a> Message<'a> {
    fn of(id: StructId, table: &'a Table) -> Self {
        Self { id, structure: table.types.get(id), inline: None }
    }

    /// What a number stands for.
    fn member(self, number: u32) -> Option<Member<'a>> {
        if self.structure.inlines.is_empty() {
            return self.structure.fields.iter().find(|field| field.proto == number).map(Member::Field);
        }
        self.members().find(|(have, _)| *have == number).map(|(_, member)| member)
    }

    /// The members with their numbers.
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
