//! A stored object: its encoded bytes, and the few parsed parts that requests need.
//!
//! The store keeps an object as JSON that begins with kind, apiVersion and metadata, without a resource version, which
//! is known only after the commit. The resource version is inserted once, when the write returns from the store as an
//! event; from then on the cache, all watchers and all responses share the bytes.

use bytes::Bytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use tracing::error;
use windlass_json::{Identity, nests_too_deep};
use windlass_store::Revision;

use super::damage::Damage;

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
    /// Returns the parts of an object; `None` if they have other types than they should.
    fn of(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |field| metadata.get(field).map_or(Some(""), Value::as_str);
        let labels = match metadata.get("labels") {
            None | Some(Value::Null) => String::new().into(),
            Some(labels) => {
                let labels = labels.as_object()?.iter().map(|(key, value)| Some((key.as_str(), value.as_str()?)));
                join(labels.collect::<Option<Vec<_>>>()?)
            }
        };
        let name = metadata.get("name")?.as_str()?;
        Some(Self { name: name.into(), namespace: text("namespace")?.into(), uid: text("uid")?.into(), labels })
    }

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

/// What is parsed of the stored form of an object.
pub(super) struct Parsed {
    metadata_at: u32,
    header: Header,
}

impl Parsed {
    /// Parses the stored form.
    ///
    /// # Errors
    /// Returns an error if the bytes are not an object as [`encode`] writes it.
    pub(super) fn of(raw: &[u8]) -> Result<Self, Damage> {
        let text = std::str::from_utf8(raw).map_err(|_| Damage::NotText)?;
        let metadata_at = metadata_at(raw)?;
        let identity = Identity::read(text).map_err(|error| Damage::NotAnObject(error.to_string()))?;
        if nests_too_deep(raw) {
            return Err(Damage::TooDeep);
        }
        let header = Header {
            name: identity.name.into(),
            namespace: identity.namespace.into(),
            uid: identity.uid.into(),
            labels: join(identity.labels.iter().flatten().map(|(key, value)| (&**key, &**value))),
        };
        Ok(Self { metadata_at, header })
    }

    /// Parses the stored form of an object that must have the name of its key.
    ///
    /// # Errors
    /// Returns an error if the bytes are not such an object as [`encode`] writes it.
    pub(super) fn named(key: &str, raw: &[u8]) -> Result<Self, Damage> {
        let parsed = Self::of(raw)?;
        match key.rsplit('/').next() {
            Some(name) if name == &*parsed.header.name => Ok(parsed),
            _ => Err(Damage::OtherName(parsed.header.name.into())),
        }
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
        Ok(Self::framed(raw, Parsed::of(raw)?, revision, b"", b"").0)
    }

    /// Parses the stored form of an object that must have the name of its key.
    ///
    /// # Errors
    /// Returns an error if the bytes are not such an object as [`encode`] writes it.
    pub(super) fn parse_named(key: &str, raw: &[u8], revision: Revision) -> Result<Self, Damage> {
        Ok(Self::framed(raw, Parsed::named(key, raw)?, revision, b"", b"").0)
    }

    /// Returns the object that a write has just stored. Its parts are taken from the value that was encoded, which is
    /// faster than to parse the bytes.
    ///
    /// # Errors
    /// Returns an error if the bytes are not an object as [`encode`] writes it.
    pub(crate) fn written(raw: &[u8], value: &Value, revision: Revision) -> Result<Self, Damage> {
        let Some(header) = Header::of(value) else { return Self::parse(raw, revision) };
        let parsed = Parsed { header, metadata_at: metadata_at(raw)? };
        Ok(Self::framed(raw, parsed, revision, b"", b"").0)
    }

    /// Returns the object of a stored form in a frame; the object's bytes are a part of the frame's.
    pub(super) fn framed(raw: &[u8], parsed: Parsed, revision: Revision, before: &[u8], after: &[u8]) -> (Self, Bytes) {
        let Parsed { metadata_at, header } = parsed;
        let (head, tail) = raw.split_at(metadata_at as usize + METADATA.len());
        Self::assemble(head, tail, metadata_at, revision, header, before, after)
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
        windlass_json::parse_encoded(&self.bytes)
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

/// Returns the offset of the metadata, and checks that offsets fit.
fn metadata_at(raw: &[u8]) -> Result<u32, Damage> {
    let at = raw.windows(METADATA.len()).position(|window| window == METADATA);
    let at = at.ok_or_else(|| Damage::NotAnObject("it has no metadata".to_owned()))?;
    // The resource version is inserted, too.
    u32::try_from(raw.len() + 64).map_or(Err(Damage::TooLong), |_| Ok(at as u32))
}

/// Joins labels, ordered by key, to one string. A label that contains NUL, which no valid label does, is omitted, because
/// it would be read as another label.
fn join<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Box<str> {
    let mut out = String::new();
    for (key, value) in labels.into_iter().filter(|(key, value)| !key.contains('\0') && !value.contains('\0')) {
        out.extend([key, "\0", value, "\0"]);
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
        assert_eq!(
            format!("{:?}", StoredObject::written(&raw, &value, Revision(42))),
            format!("{:?}", Ok::<_, Damage>(&object))
        );
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
