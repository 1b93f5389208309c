//! A stored object: its encoded bytes, and the few parsed parts that requests need.
//!
//! The store keeps an object as JSON that begins with kind, apiVersion and metadata, without a resource version, which
//! is known only after the commit. The resource version is inserted once, when the write returns from the store as an
//! event; from then on the cache, all watchers and all responses share the bytes.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::Bytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use tracing::error;
use windlass_store::Revision;

use super::damage::{Damage, nests_too_deep};

/// An object at a revision.
#[derive(Debug)]
pub(crate) struct StoredObject {
    /// The object as JSON, resource version included.
    bytes: Bytes,
    /// The offset of `"metadata"`, where list items of built-in kinds begin.
    metadata_at: u32,
    /// The offset of the resource version, right after `"metadata":{`, and of its end.
    version_at: u32,
    version_end: u32,
    /// The revision of the write, or of the deletion.
    pub(crate) revision: Revision,
    /// The revision at which the content was written.
    pub(crate) written: Revision,
    /// The parsed parts.
    pub(crate) header: Header,
    /// Whether the object was converted to the served version from another stored one.
    is_converted: bool,
}

/// The parsed parts of an object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header {
    /// The name.
    pub(crate) name: Box<str>,
    /// The namespace; empty for cluster-scoped objects.
    pub(crate) namespace: Box<str>,
    /// The uid.
    pub(crate) uid: Box<str>,
    /// The labels in one string, `key NUL value NUL`, so that a scan reads one place in memory.
    labels: Box<str>,
}

impl Header {
    /// Returns the labels, ordered by key.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.labels.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// Returns the value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels().find(|(have, _)| *have == key).map(|(_, value)| value)
    }
}

const METADATA: &[u8] = br#""metadata":{"#;
const VERSION: &[u8] = br#""resourceVersion":""#;

impl StoredObject {
    /// Parses the stored form.
    ///
    /// # Errors
    /// Returns an error if the bytes are not an object as [`encode`] writes it.
    pub(crate) fn parse(raw: &[u8], revision: Revision) -> Result<Self, Damage> {
        Self::framed(raw, revision, b"", b"").map(|(object, _)| object)
    }

    /// Parses the stored form and puts it into a frame; the object's bytes are a part of the frame's.
    pub(super) fn framed(raw: &[u8], revision: Revision, before: &[u8], after: &[u8]) -> Result<(Self, Bytes), Damage> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow, default)]
            namespace: Cow<'a, str>,
            #[serde(borrow, default)]
            uid: Cow<'a, str>,
            #[serde(borrow, default)]
            labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
        }
        let text = std::str::from_utf8(raw).map_err(|_| Damage::NotText)?;
        let metadata_at = raw.windows(METADATA.len()).position(|window| window == METADATA);
        let metadata_at = metadata_at.ok_or_else(|| Damage::NotAnObject("it has no metadata".to_owned()))?;
        let envelope = serde_json::from_str::<Envelope<'_>>(text);
        let metadata = envelope.map_err(|error| Damage::NotAnObject(error.to_string()))?.metadata;
        if nests_too_deep(raw) {
            return Err(Damage::TooDeep);
        }
        let header = Header {
            name: metadata.name.into(),
            namespace: metadata.namespace.into(),
            uid: metadata.uid.into(),
            labels: join(metadata.labels.unwrap_or_default()),
        };
        let splice = metadata_at + METADATA.len();
        if u32::try_from(raw.len() + 64).is_err() {
            return Err(Damage::TooLong);
        }
        Ok(Self::assemble(&raw[..splice], &raw[splice..], metadata_at as u32, revision, header, before, after))
    }

    /// Returns the object as the last state before a deletion at `revision`, in a frame.
    pub(super) fn deleted_in(&self, revision: Revision, before: &[u8], after: &[u8]) -> (Self, Bytes) {
        let (head, tail) = self.around_version();
        let (object, frame) =
            Self::assemble(head, tail, self.metadata_at, revision, self.header.clone(), before, after);
        (Self { written: self.written, is_converted: self.is_converted, ..object }, frame)
    }

    /// Returns the object as the last state before a deletion at `revision`.
    #[must_use]
    pub(crate) fn deleted_at(&self, revision: Revision) -> Self {
        self.deleted_in(revision, b"", b"").0
    }

    /// Returns the object with the content that a webhook has converted, encoded as for the store.
    ///
    /// # Errors
    /// Returns an error if the content is not an object that can be served.
    pub(crate) fn converted(&self, raw: &[u8]) -> Result<Self, Damage> {
        let converted = Self::parse(raw, self.revision)?;
        Ok(Self { written: self.written, is_converted: true, ..converted })
    }

    /// Returns whether the object was converted to the served version from another stored one.
    pub(crate) fn is_converted(&self) -> bool {
        self.is_converted
    }

    /// Returns the apiVersion in which it is stored.
    pub(crate) fn api_version(&self) -> String {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Beginning {
            api_version: String,
        }
        // It precedes the metadata.
        let mut head = self.bytes[..self.metadata_at as usize].trim_ascii_end().to_vec();
        head.pop_if(|last| *last == b',');
        head.push(b'}');
        serde_json::from_slice::<Beginning>(&head).map(|beginning| beginning.api_version).unwrap_or_default()
    }

    /// Returns the JSON of the metadata.
    pub(crate) fn metadata(&self) -> &[u8] {
        let rest = &self.bytes[self.metadata_at as usize + METADATA.len() - 1..];
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        values.next();
        &rest[..values.byte_offset()]
    }

    /// Returns the bytes before and after the resource version.
    fn around_version(&self) -> (&[u8], &[u8]) {
        (&self.bytes[..self.version_at as usize], &self.bytes[self.version_end as usize..])
    }

    fn assemble(
        head: &[u8],
        tail: &[u8],
        metadata_at: u32,
        revision: Revision,
        header: Header,
        before: &[u8],
        after: &[u8],
    ) -> (Self, Bytes) {
        let mut out = Vec::with_capacity(before.len() + head.len() + VERSION.len() + 22 + tail.len() + after.len());
        out.extend_from_slice(before);
        out.extend_from_slice(head);
        out.extend_from_slice(VERSION);
        write_number(revision.0, &mut out);
        out.push(b'"');
        if tail.first() != Some(&b'}') {
            out.push(b',');
        }
        let version_end = out.len() - before.len();
        out.extend_from_slice(tail);
        let end = out.len();
        out.extend_from_slice(after);
        let frame = Bytes::from(out);
        let object = Self {
            bytes: frame.slice(before.len()..end),
            metadata_at,
            // The length was checked when the stored form was parsed.
            version_at: head.len() as u32,
            version_end: version_end as u32,
            revision,
            written: revision,
            header,
            is_converted: false,
        };
        (object, frame)
    }

    /// Writes the object as an item of a built-in list: without kind and apiVersion.
    pub(crate) fn write_untyped(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.bytes[self.metadata_at as usize..]);
    }

    /// Returns the complete object as JSON.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the object as a value, resource version included.
    ///
    /// # Errors
    /// Returns an error if a part that was not parsed with the object is damaged.
    pub(crate) fn value(&self) -> Result<Value, Damage> {
        // The first parser is faster, but has a lower limit on nesting than objects have.
        serde_json::from_slice(&self.bytes)
            .or_else(|_| windlass_schema::json::parse(&self.bytes).map(|document| document.value))
            .map_err(|error| Damage::NotAnObject(error.to_string()))
    }

    /// Returns the object as a value, resource version included; only its identity if the rest is damaged.
    pub(crate) fn to_value(&self) -> Value {
        self.value().unwrap_or_else(|damage| {
            let Header { name, namespace, uid, .. } = &self.header;
            error!(%name, %namespace, %damage, "a stored object is damaged");
            json!({"metadata": {
                "name": name, "namespace": namespace, "uid": uid, "resourceVersion": self.revision.to_string(),
            }})
        })
    }

    /// Returns whether the stored form of the object is exactly these bytes.
    pub(crate) fn is_stored_as(&self, raw: &[u8]) -> bool {
        let (head, tail) = self.around_version();
        raw.len() == head.len() + tail.len() && raw.starts_with(head) && raw.ends_with(tail)
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }
}

fn write_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Joins labels to one string. A label that contains NUL, which no valid label does, is omitted, because it would be
/// read as another label.
fn join(labels: BTreeMap<Cow<'_, str>, Cow<'_, str>>) -> Box<str> {
    let mut out = String::new();
    for (key, value) in labels.iter().filter(|(key, value)| !key.contains('\0') && !value.contains('\0')) {
        out.extend([&**key, "\0", &**value, "\0"]);
    }
    out.into()
}

/// Encodes an object for the store: kind, apiVersion and metadata first, no resource version.
pub(crate) fn encode(object: &mut Value) -> Bytes {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    windlass_schema::json::encode_object(object).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_version_is_inserted() {
        let mut value = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"metadata": "x"},
            "metadata": {"name": "a", "namespace": "n", "labels": {"b": "2", "a": "1", "empty": ""}, "resourceVersion": "7"},
        });
        let raw = encode(&mut value);
        let object = StoredObject::parse(&raw, Revision(42)).unwrap();
        assert_eq!(object.header.label("b"), Some("2"));
        assert_eq!(object.header.label("empty"), Some(""));
        assert_eq!((object.header.label("c"), object.header.label("2")), (None, None));
        let written: Value = serde_json::from_slice(object.bytes()).unwrap();
        value["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(written, value);
        assert_eq!(object.to_value(), value);
        assert_eq!(serde_json::from_slice::<Value>(object.metadata()).unwrap(), value["metadata"]);
        assert!(object.is_stored_as(&raw) && !object.is_stored_as(&raw[1..]));
        assert_eq!(object.deleted_at(Revision(1_000)).to_value()["metadata"]["resourceVersion"], "1000");
        let mut item = Vec::new();
        object.write_untyped(&mut item);
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert_eq!(item["kind"], Value::Null);
        assert_eq!(item["metadata"]["resourceVersion"], "42");
    }

    #[test]
    fn damaged_bytes_are_not_an_object() {
        let damage = |raw: &[u8]| StoredObject::parse(raw, Revision(1)).unwrap_err();
        assert_eq!(damage(b"\xff\xfe"), Damage::NotText);
        for raw in ["", "{}", "null", r#"{"metadata":{}}"#, r#"{"metadata":{"name":"a"}"#, r#"{"metadata":{"name":1}}"#]
        {
            assert!(matches!(damage(raw.as_bytes()), Damage::NotAnObject(_)), "{raw}");
        }
        let nested = |levels: usize| {
            format!(r#"{{"metadata":{{"name":"a"}},"x":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
        };
        assert_eq!(damage(nested(1000).as_bytes()), Damage::TooDeep);
        let deep = StoredObject::parse(nested(999).as_bytes(), Revision(1)).unwrap();
        assert_eq!(deep.value().unwrap()["metadata"]["resourceVersion"], "1");
    }
}
