//! A stored object: its encoded bytes, and the few parts of it that requests look at.
//!
//! The store keeps an object as JSON that begins with kind, apiVersion and metadata, without a resourceVersion (which is
//! known only once the write is committed). The resource version is spliced in when the bytes are written out, so nothing
//! is ever encoded again for a read.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use windlass_store::Revision;

/// An object at a revision. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StoredObject {
    raw: Bytes,
    /// Where `"metadata"` begins: list items of built-in kinds start there.
    metadata_at: u32,
    /// Just behind `"metadata":{`: where the resource version goes.
    splice_at: u32,
    /// The revision of the write.
    pub revision: Revision,
    /// The parsed parts.
    pub header: Arc<Header>,
}

/// What is parsed of an object.
#[derive(Debug, Default)]
pub struct Header {
    /// The name.
    pub name: Box<str>,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// The uid.
    pub uid: Box<str>,
    /// The labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
}

impl Header {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(have, _)| (**have).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }
}

const METADATA: &[u8] = br#""metadata":{"#;

impl StoredObject {
    /// Reads the stored form. `None` if the bytes are not an object as [`encode`] writes it.
    pub fn parse(raw: Bytes, revision: Revision) -> Option<Self> {
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
        let at = raw.windows(METADATA.len()).position(|window| window == METADATA)?;
        let metadata = serde_json::from_slice::<Envelope<'_>>(&raw).ok()?.metadata;
        let header = Header {
            name: metadata.name.into(),
            namespace: metadata.namespace.into(),
            uid: metadata.uid.into(),
            labels: metadata.labels.into_iter().flatten().map(|(k, v)| (k.into(), v.into())).collect(),
        };
        let metadata_at = u32::try_from(at).ok()?;
        let splice_at = metadata_at + METADATA.len() as u32;
        Some(Self { raw, metadata_at, splice_at, revision, header: Arc::new(header) })
    }

    /// The same object as the last state before a deletion at `revision`.
    #[must_use]
    pub fn deleted_at(&self, revision: Revision) -> Self {
        Self { revision, ..self.clone() }
    }

    /// The whole object as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_from(0, out);
    }

    /// The object as an item of a built-in list: without kind and apiVersion.
    pub fn write_untyped(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_from(self.metadata_at as usize, out);
    }

    fn write_from(&self, start: usize, out: &mut Vec<u8>) {
        let splice = self.splice_at as usize;
        out.reserve(self.size());
        out.extend_from_slice(&self.raw[start..splice]);
        out.extend_from_slice(br#""resourceVersion":""#);
        write_number(self.revision.0, out);
        out.push(b'"');
        if self.raw.get(splice) != Some(&b'}') {
            out.push(b',');
        }
        out.extend_from_slice(&self.raw[splice..]);
    }

    /// The whole object as JSON.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.write(&mut out);
        out.into()
    }

    /// The object as a value, resource version included.
    pub fn to_value(&self) -> Value {
        let mut value: Value = serde_json::from_slice(&self.raw).expect("a stored object must be JSON");
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        value
    }

    /// Whether these are the bytes it is stored as.
    pub fn is_stored_as(&self, bytes: &Bytes) -> bool {
        self.raw == *bytes
    }

    /// About how many bytes it writes.
    pub fn size(&self) -> usize {
        self.raw.len() + 48
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

/// Encodes an object for the store: kind, apiVersion and metadata first, no resource version.
pub fn encode(object: &mut Value) -> Bytes {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    windlass_schema::json::encode_object(object).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_resource_version_is_spliced_in() {
        let mut value = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"metadata": "x"},
            "metadata": {"name": "a", "namespace": "n", "labels": {"b": "2", "a": "1"}, "resourceVersion": "7"},
        });
        let object = StoredObject::parse(encode(&mut value), Revision(42)).unwrap();
        assert_eq!(object.header.label("b"), Some("2"));
        assert_eq!(object.header.label("c"), None);
        let written: Value = serde_json::from_slice(&object.to_bytes()).unwrap();
        value["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(written, value);
        assert_eq!(object.to_value(), value);
        let mut item = Vec::new();
        object.write_untyped(&mut item);
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert_eq!(item["kind"], Value::Null);
        assert_eq!(item["metadata"]["resourceVersion"], "42");
    }
}
