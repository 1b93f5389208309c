//! An object as text.

use std::{cell::RefCell, sync::Arc};

use kube::core::ObjectMeta;

use super::table::key_of;
use crate::{any_object::AnyObject, object::revision_in, watch::Parse};

/// A scratch buffer that has grown beyond this is not kept.
const SCRATCH: usize = 1 << 20;

thread_local! {
    /// What is packed is written here first, so that each text is as long as it must be.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An object as JSON, after what the store asks of it without parsing: the lengths of namespace, name, uid and
/// resourceVersion, and these themselves. In one piece of memory.
pub(super) struct Packed<K: ?Sized> {
    text: Box<[u8]>,
    parse: Parse<K>,
}

/// What the store asks of an object, parsed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Brief<'a> {
    /// Namespace and name; empty where it has none.
    pub(super) key: (&'a str, &'a str),
    pub(super) uid: Option<&'a str>,
    pub(super) version: Option<&'a str>,
}

const FIELDS: usize = 4;
const LENGTHS: usize = FIELDS * size_of::<u16>();

impl<'a> Brief<'a> {
    pub(super) fn of(meta: &'a ObjectMeta) -> Self {
        Self { key: key_of(meta), uid: meta.uid.as_deref(), version: meta.resource_version.as_deref() }
    }

    /// As [`revision_of`](crate::object::revision_of) the object.
    pub(super) fn revision(&self) -> u64 {
        revision_in(self.version)
    }
}

impl<K: AnyObject + ?Sized> Packed<K> {
    /// None if it is no object of a server, or cannot be written as JSON. `parse` reads it again.
    pub(super) fn new(object: &K, parse: Parse<K>) -> Option<Self> {
        let brief = Brief::of(object.metadata());
        let fields = [brief.key.0, brief.key.1, brief.uid?, brief.version?];
        // Nothing is not told from something empty.
        if fields[1..].iter().any(|field| field.is_empty()) {
            return None;
        }
        let mut bytes = SPARE.take();
        bytes.clear();
        for field in fields {
            bytes.extend(u16::try_from(field.len()).ok()?.to_le_bytes());
        }
        for field in fields {
            bytes.extend(field.as_bytes());
        }
        object.write_json(&mut bytes).ok()?;
        let packed = Self { text: bytes.as_slice().into(), parse };
        if bytes.capacity() <= SCRATCH {
            SPARE.replace(bytes);
        }
        Some(packed)
    }

    /// What the store asks of it, and the JSON.
    fn parts(&self) -> (Brief<'_>, &[u8]) {
        let (lengths, mut rest) = self.text.split_at(LENGTHS);
        let mut fields = [""; FIELDS];
        for (field, length) in fields.iter_mut().zip(lengths.chunks_exact(size_of::<u16>())) {
            let text;
            (text, rest) = rest.split_at(usize::from(u16::from_le_bytes([length[0], length[1]])));
            *field = std::str::from_utf8(text).expect("a part of a packed object must be text, as it was written");
        }
        let [namespace, name, uid, version] = fields;
        (Brief { key: (namespace, name), uid: Some(uid), version: Some(version) }, rest)
    }

    pub(super) fn brief(&self) -> Brief<'_> {
        self.parts().0
    }

    /// The object. What does not parse here was written by a type that does not read what it writes, which the
    /// [packer](super::packing::Packer) looks out for.
    pub(super) fn parse(&self) -> Arc<K> {
        self.try_parse().expect("a type that is kept packed must read what it writes")
    }

    pub(super) fn try_parse(&self) -> Option<Arc<K>> {
        self.parse.read(self.parts().1).ok()
    }
}
