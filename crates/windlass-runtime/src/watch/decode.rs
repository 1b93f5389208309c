//! Decoding of lists and watches, in one pass.
//!
//! Each object is parsed directly from the received bytes, without an intermediate tree or a copy of the body. On the
//! way:
//!
//! - `metadata.managedFields` is skipped without being built, unless it is wanted;
//! - `apiVersion` and `kind` are set to those of the requested resource. Lists of built-in kinds omit them from their
//!   items, and metadata arrives as `PartialObjectMetadata`.
//!
//! An object that fails to deserialize does not fail its list or watch: it is reported as [`Unreadable`], by name.
//! Neither this nor any other error here reveals the content of an object.

mod adjust;
mod event;
mod lines;
mod list;

use std::{
    any::type_name,
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube::core::ApiResource;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, de::SliceRead};

use super::UnreadableObject;
use crate::{any_object::AnyObject, key::ObjectKey, object::Object};

pub(super) use self::{
    event::{Event, Status},
    lines::Lines,
    list::{ListBody, ListMeta, Progress},
};

/// Parser for the objects of one resource.
pub(crate) struct Decoder<K: ?Sized> {
    parse: Parse<K>,
    adjust: Adjust,
}

/// Changes to an object while it is parsed.
struct Adjust {
    /// `apiVersion` and `kind` to set.
    types: Option<[String; 2]>,
    keep_managed_fields: bool,
}

/// Conversion of text to a Rust type: the only part of a watch, and of an informer, that is compiled for each type.
pub(crate) struct Parse<K: ?Sized> {
    /// Name of the type.
    pub(crate) name: &'static str,
    parse: fn(&mut Parser<'_>, &Adjust) -> serde_json::Result<Arc<K>>,
}

type Parser<'a> = serde_json::Deserializer<SliceRead<'a>>;

/// Error for data that no server should send.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("the response is not a list: {0}")]
    List(Place),
    #[error("the response ends in the middle of a list")]
    Cut,
    #[error("a line of the watch is not an event: {0}")]
    Event(Place),
    #[error("a line of the watch is longer than {0} bytes")]
    Long(usize),
}

/// Position and category of a parse error, without the content, which may be secret.
#[derive(Debug)]
pub(crate) struct Place {
    category: serde_json::error::Category,
    line: usize,
    column: usize,
}

/// An object that failed to deserialize.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) revision: String,
    pub(super) place: Place,
    labels: BTreeMap<String, String>,
    controller: Option<String>,
}

/// The part of an object that identifies it, regardless of the rest.
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
    uid: String,
    resource_version: String,
    /// Of any type, as these may be what is wrong.
    labels: Value,
    owner_references: Value,
}

impl LenientMeta {
    fn labels(&self) -> BTreeMap<String, String> {
        let labels = self.labels.as_object().into_iter().flatten();
        labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// Returns the UID of the controlling owner.
    fn controller(&self) -> Option<String> {
        let mut owners = self.owner_references.as_array()?.iter();
        Some(owners.find(|owner| owner["controller"] == true)?["uid"].as_str()?.to_owned())
    }
}

impl<K: ?Sized> Decoder<K> {
    pub(crate) fn new(parse: Parse<K>, resource: &ApiResource, keep_managed_fields: bool) -> Self {
        let types = Some([resource.api_version.clone(), resource.kind.clone()]);
        Self { parse, adjust: Adjust { types, keep_managed_fields } }
    }

    /// Parses without changes.
    #[cfg(test)]
    pub(crate) fn unchanged(parse: Parse<K>) -> Self {
        Self { parse, adjust: Adjust { types: None, keep_managed_fields: true } }
    }

    /// Parses the text of one object.
    pub(crate) fn read(&self, text: &[u8]) -> serde_json::Result<Arc<K>> {
        let mut parser = serde_json::Deserializer::from_slice(text);
        let object = self.parse(&mut parser)?;
        parser.end()?;
        Ok(object)
    }

    /// Returns whether `metadata.managedFields` is parsed.
    pub(crate) fn keeps_managed_fields(&self) -> bool {
        self.adjust.keep_managed_fields
    }

    /// Returns the name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        self.parse.name
    }

    fn parse(&self, parser: &mut Parser<'_>) -> serde_json::Result<Arc<K>> {
        (self.parse.parse)(parser, &self.adjust)
    }
}

impl Parse<dyn AnyObject> {
    /// Parses into a type-erased object.
    pub(crate) fn of<K: Object>() -> Self {
        Self { name: type_name::<K>(), parse: |parser, adjust| Ok(parse::<K>(parser, adjust)?) }
    }
}

#[cfg(test)]
impl<K: DeserializeOwned> Parse<K> {
    /// Parses into a typed object.
    pub(crate) fn typed() -> Self {
        Self { name: type_name::<K>(), parse }
    }
}

impl<K: ?Sized> Parse<K> {
    /// Parses a string without changes.
    pub(crate) fn read(&self, text: &[u8]) -> serde_json::Result<Arc<K>> {
        let mut parser = serde_json::Deserializer::from_slice(text);
        let object = (self.parse)(&mut parser, &Adjust { types: None, keep_managed_fields: true })?;
        parser.end()?;
        Ok(object)
    }
}

impl<K: ?Sized> Clone for Parse<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for Parse<K> {}

fn parse<K: DeserializeOwned>(parser: &mut Parser<'_>, adjust: &Adjust) -> serde_json::Result<Arc<K>> {
    // A type that panics on one object must not stop the watch of all others.
    let parsed = catch_unwind(AssertUnwindSafe(|| K::deserialize(adjust::Adjusted::new(parser, adjust::Top(adjust)))));
    parsed.unwrap_or_else(|_| Err(serde::de::Error::custom("parsing panicked"))).map(Arc::new)
}

impl Unreadable {
    /// Returns the key of the object, if that much could be read.
    fn key(&self) -> Option<ObjectKey> {
        (!self.name.is_empty()).then(|| ObjectKey::namespaced(&self.namespace, &self.name))
    }

    /// Returns the object for the receiver of the changes, if that much could be read.
    pub(super) fn named(&self) -> Option<UnreadableObject> {
        Some(UnreadableObject {
            key: self.key()?,
            uid: self.uid.clone(),
            revision: self.revision.parse().unwrap_or(0),
            problem: self.place.to_string(),
            labels: self.labels.clone(),
            controller: self.controller.clone(),
        })
    }

    fn new(lenient: Lenient, error: &serde_json::Error) -> Self {
        let (labels, controller) = (lenient.metadata.labels(), lenient.metadata.controller());
        let LenientMeta { name, namespace, uid, resource_version, .. } = lenient.metadata;
        Self { namespace, name, uid, revision: resource_version, place: error.into(), labels, controller }
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
            serde_json::error::Category::Io | serde_json::error::Category::Eof => "unexpected end",
            serde_json::error::Category::Syntax => "invalid JSON",
            serde_json::error::Category::Data => "a field is missing or has another type",
        };
        write!(f, "{what}, at line {} column {}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests;
