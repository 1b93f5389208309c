//! From bytes to objects, in one pass.
//!
//! Each object is parsed straight from the bytes that came: no tree in between, no copy of a body. On the way
//!
//! - `metadata.managedFields` is passed over without being built, unless it is wanted;
//! - `apiVersion` and `kind` become those of the resource that was asked for. A list leaves them out of its items for
//!   built-in kinds, and metadata alone comes under the name `PartialObjectMetadata`.
//!
//! An object that does not parse is not an error of its list or watch: it is told as [`Unreadable`], by name. Neither
//! that nor any error here shows what is in an object.

mod adjust;
mod event;
mod lines;
mod list;

use std::{
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube::core::ApiResource;
use serde::{
    Deserialize,
    de::{DeserializeOwned, DeserializeSeed, Deserializer},
};

use crate::key::ObjectKey;

pub(super) use self::{
    event::{Event, Status},
    lines::Lines,
    list::{ListBody, ListMeta, Progress},
};

/// How objects of one resource are parsed.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    api_version: Arc<str>,
    kind: Arc<str>,
    keep_managed_fields: bool,
}

/// Bytes that are not what a server sends.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("the answer is not a list: {0}")]
    List(Place),
    #[error("the answer ends in the middle of a list")]
    Cut,
    #[error("a line of the watch is not an event: {0}")]
    Event(Place),
    #[error("a line of the watch is longer than {0} bytes")]
    Long(usize),
}

/// Where parsing failed and how, without what was there: that may be secret.
#[derive(Debug)]
pub(super) struct Place {
    category: serde_json::error::Category,
    line: usize,
    column: usize,
}

/// An object that could not be parsed into its type.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) revision: String,
    pub(super) place: Place,
}

/// The part of an object by which it can be told, however odd the rest of it is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Lenient {
    metadata: LenientMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LenientMeta {
    name: String,
    namespace: String,
    resource_version: String,
}

/// Parses an object with a [`Decoder`].
struct ObjectSeed<'a, K> {
    decoder: &'a Decoder,
    kind: PhantomData<fn() -> K>,
}

impl Decoder {
    pub(super) fn new(resource: &ApiResource, keep_managed_fields: bool) -> Self {
        Self {
            api_version: resource.api_version.as_str().into(),
            kind: resource.kind.as_str().into(),
            keep_managed_fields,
        }
    }

    fn seed<K: DeserializeOwned>(&self) -> ObjectSeed<'_, K> {
        ObjectSeed { decoder: self, kind: PhantomData }
    }
}

impl<'de, K: DeserializeOwned> DeserializeSeed<'de> for ObjectSeed<'_, K> {
    type Value = K;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K, D::Error> {
        // A type that panics with one object must not take the watch of all others with it.
        catch_unwind(AssertUnwindSafe(|| {
            K::deserialize(adjust::Adjusted::new(deserializer, adjust::Top(self.decoder)))
        }))
        .unwrap_or_else(|_| Err(serde::de::Error::custom("parsing panicked")))
    }
}

impl Unreadable {
    /// Which object it is, if that much could be read.
    pub(super) fn key(&self) -> Option<ObjectKey> {
        (!self.name.is_empty()).then(|| ObjectKey::namespaced(&self.namespace, &self.name))
    }

    fn new(lenient: Lenient, error: &serde_json::Error) -> Self {
        let LenientMeta { name, namespace, resource_version } = lenient.metadata;
        Self { namespace, name, revision: resource_version, place: error.into() }
    }
}

impl From<&serde_json::Error> for Place {
    fn from(error: &serde_json::Error) -> Self {
        Self { category: error.classify(), line: error.line(), column: error.column() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.category {
            serde_json::error::Category::Io | serde_json::error::Category::Eof => "it ends too early",
            serde_json::error::Category::Syntax => "it is not JSON",
            serde_json::error::Category::Data => "a field is missing or of another type",
        };
        write!(f, "{what}, at line {} column {}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests;
