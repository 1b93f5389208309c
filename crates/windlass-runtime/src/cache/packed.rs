//! Packed objects.

use std::{cell::RefCell, sync::Arc};

use kube::core::ObjectMeta;

use super::{managed_fields, table::key_of};
use crate::{any_object::AnyObject, object::revision_in, watch::Decoder};

/// Maximum size of a scratch buffer that is kept.
const SCRATCH: usize = 1 << 20;

thread_local! {
    /// Scratch buffer, so that each packed text has its exact size.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An object as JSON, preceded by what the store needs without parsing: the origin of the JSON, the lengths of namespace,
/// name, UID and resource version, and these values. In one allocation.
pub(super) struct Packed<K: ?Sized> {
    text: Box<[u8]>,
    decoder: Arc<Decoder<K>>,
}

/// Origin of a packed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The server.
    Received,
    /// The object: the text is what its type serializes.
    Serialized,
}

/// Properties of an object that the store needs, parsed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Brief<'a> {
    /// Namespace and name; empty if absent.
    pub(super) key: (&'a str, &'a str),
    pub(super) uid: Option<&'a str>,
    pub(super) version: Option<&'a str>,
}

const FIELDS: usize = 4;
/// The origin and the lengths.
const HEAD: usize = 1 + FIELDS * size_of::<u16>();

impl<'a> Brief<'a> {
    pub(super) fn of(meta: &'a ObjectMeta) -> Self {
        Self { key: key_of(meta), uid: meta.uid.as_deref(), version: meta.resource_version.as_deref() }
    }

    /// See [`revision_of`](crate::object::revision_of).
    pub(super) fn revision(&self) -> u64 {
        revision_in(self.version)
    }
}

impl<K: AnyObject + ?Sized> Packed<K> {
    /// Returns `None` if the object is not from a server or cannot be serialized. `decoder` must deserialize it.
    pub(super) fn new(object: &K, decoder: &Arc<Decoder<K>>) -> Option<Self> {
        Self::with(object, decoder, Origin::Serialized, |bytes| object.write_json(bytes).ok())
    }

    /// Keeps the text that `decoder` has parsed the object from. Returns `None` if the object is not from a server.
    pub(super) fn of_text(object: &K, text: &[u8], decoder: &Arc<Decoder<K>>) -> Option<Self> {
        Self::with(object, decoder, Origin::Received, |bytes| {
            match decoder.keeps_managed_fields() {
                true => bytes.extend_from_slice(text),
                false => managed_fields::append_without(text, bytes),
            }
            Some(())
        })
    }

    fn with(
        object: &K,
        decoder: &Arc<Decoder<K>>,
        origin: Origin,
        append: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) -> Option<Self> {
        let brief = Brief::of(object.metadata());
        let fields = [brief.key.0, brief.key.1, brief.uid?, brief.version?];
        // An absent field cannot be distinguished from an empty one.
        if fields[1..].iter().any(|field| field.is_empty()) {
            return None;
        }
        let mut bytes = SPARE.take();
        bytes.clear();
        bytes.push(origin as u8);
        for field in fields {
            bytes.extend(u16::try_from(field.len()).ok()?.to_le_bytes());
        }
        for field in fields {
            bytes.extend(field.as_bytes());
        }
        append(&mut bytes)?;
        let packed = Self { text: bytes.as_slice().into(), decoder: decoder.clone() };
        if bytes.capacity() <= SCRATCH {
            SPARE.replace(bytes);
        }
        Some(packed)
    }

    /// Moves the text out.
    pub(super) fn take(&mut self) -> Self {
        Self { text: std::mem::take(&mut self.text), decoder: self.decoder.clone() }
    }

    /// Returns the fields and the JSON.
    fn parts(&self) -> (Brief<'_>, &[u8]) {
        let (head, mut rest) = self.text.split_at(HEAD);
        let mut fields = [""; FIELDS];
        for (field, length) in fields.iter_mut().zip(head[1..].chunks_exact(size_of::<u16>())) {
            let text;
            (text, rest) = rest.split_at(usize::from(u16::from_le_bytes([length[0], length[1]])));
            *field = std::str::from_utf8(text).expect("a packed object contains the text that was written");
        }
        let [namespace, name, uid, version] = fields;
        (Brief { key: (namespace, name), uid: Some(uid), version: Some(version) }, rest)
    }

    pub(super) fn brief(&self) -> Brief<'_> {
        self.parts().0
    }

    /// Returns whether the JSON is that of the server.
    pub(super) fn is_received(&self) -> bool {
        self.text[0] == Origin::Received as u8
    }

    /// Returns the JSON.
    pub(super) fn json(&self) -> &[u8] {
        self.parts().1
    }

    /// Returns the length of the text.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the object. The [packer](super::packing::Packer) keeps no text that cannot be parsed again.
    pub(super) fn parse(&self) -> Arc<K> {
        self.try_parse().expect("a packed text was parsed before")
    }

    pub(super) fn try_parse(&self) -> Option<Arc<K>> {
        self.decoder.read(self.parts().1).ok()
    }
}
