//! The types of a structural schema as seen by expressions.
//!
//! A [`DeclType`] describes the parts of a schema that an expression can use (its type and fields), and the properties
//! that the cost of an expression depends on: the maximum number of elements of a value, and its minimum serialized
//! size. Sizes that the schema does not limit are limited by the size of a request. Parts of a schema that expressions
//! must not see (an untyped subtree, a list without items) have no type.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_schema::sorting::Gather as _;
use windlass_schema::structural::{Additional, Kind, Structural};

use crate::types::Type;
use crate::value::escape;

mod resolve;

pub use resolve::Declared;

/// Maximum size of a request, which limits everything that a schema does not.
pub const MAX_REQUEST_SIZE: i64 = 3 * 1024 * 1024;

/// Properties of a schema that are relevant for cost estimates and type checks.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclType {
    /// The shape of the type.
    pub shape: Shape,
    /// Maximum number of elements, entries, characters or bytes; zero for values without a size.
    pub max_elements: i64,
    /// Minimum size of a value as JSON in bytes.
    pub min_serialized_size: i64,
}

/// The shapes of declared types.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A value without parts: a number, a string, a time, or any value.
    Simple(Type),
    /// A list of elements.
    List(Arc<DeclType>),
    /// A map with string keys.
    Map(Arc<DeclType>),
    /// An object with declared fields, by their escaped names.
    Object(BTreeMap<String, Arc<DeclType>>),
}

impl DeclType {
    /// Returns the declared type of a schema; `None` if expressions must not see it. `resource_root` is true for the
    /// root of a custom resource and of embedded ones, where `apiVersion`, `kind`, `metadata.name` and
    /// `metadata.generateName` are always present.
    pub fn of(schema: &Structural, resource_root: bool) -> Option<Self> {
        if schema.int_or_string {
            let max = schema.validation.max_length.map_or(MAX_REQUEST_SIZE - 2, |max| max.max(0).wrapping_mul(4));
            return Some(Self::simple(Type::Dyn, 1, max));
        }
        match schema.kind? {
            Kind::Array => {
                let items = schema.items.as_deref()?;
                let element = Self::of(items, items.embedded_resource)?;
                let max = match schema.validation.max_items {
                    Some(max) => max.max(0),
                    None => (MAX_REQUEST_SIZE - 2) / (element.min_serialized_size + 1),
                };
                Some(Self { shape: Shape::List(Arc::new(element)), max_elements: max, min_serialized_size: 2 })
            }
            Kind::Object => {
                if let Additional::Schema(values) = &schema.additional {
                    let element = Self::of(values, values.embedded_resource)?;
                    let max = match schema.validation.max_properties {
                        Some(max) => max.max(0),
                        None => (MAX_REQUEST_SIZE - 2) / (element.min_serialized_size + 6),
                    };
                    return Some(Self {
                        shape: Shape::Map(Arc::new(element)),
                        max_elements: max,
                        min_serialized_size: 2,
                    });
                }
                Some(Self::object(schema, resource_root))
            }
            Kind::String => Some(Self::string(schema)),
            Kind::Boolean => Some(Self::simple(Type::Bool, 4, 0)),
            Kind::Number => Some(Self::simple(Type::Double, 1, 0)),
            Kind::Integer => Some(Self::simple(Type::Int, 1, 0)),
        }
    }

    /// Returns the type of the elements of a list or the values of a map.
    pub fn element(&self) -> Option<&Arc<DeclType>> {
        match &self.shape {
            Shape::List(element) | Shape::Map(element) => Some(element),
            Shape::Simple(_) | Shape::Object(_) => None,
        }
    }

    /// Returns the type of a field of an object, by its escaped name.
    pub fn field(&self, escaped: &str) -> Option<&Arc<DeclType>> {
        match &self.shape {
            Shape::Object(fields) => fields.get(escaped),
            _ => None,
        }
    }

    fn simple(kind: Type, min: i64, max: i64) -> Self {
        Self { shape: Shape::Simple(kind), max_elements: max, min_serialized_size: min }
    }

    fn object(schema: &Structural, resource_root: bool) -> Self {
        let mut fields = BTreeMap::new();
        let mut size = 2i64;
        let with_metadata = resource_root && !declares_metadata(schema);
        for (name, property) in &schema.properties {
            if with_metadata && matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
                continue;
            }
            let Some(declared) = Self::of(property, property.embedded_resource) else { continue };
            // Every object must contain the required fields without a default in the request.
            if schema.validation.required.contains(name) && property.default.is_none() {
                size += name.len() as i64 + declared.min_serialized_size + 4;
            }
            if let Some(escaped) = escape(name) {
                fields.insert(escaped.into_owned(), Arc::new(declared));
            }
        }
        if with_metadata {
            let text = Arc::new(Self::simple(Type::String, 2, MAX_REQUEST_SIZE - 2));
            let names = ["name", "generateName"].into_iter().map(|name| (name.to_owned(), text.clone())).gather();
            let metadata = Self { shape: Shape::Object(names), max_elements: 0, min_serialized_size: 2 };
            for (name, declared) in [("kind", text.clone()), ("apiVersion", text), ("metadata", Arc::new(metadata))] {
                if schema.validation.required.iter().any(|required| required == name) {
                    size += name.len() as i64 + declared.min_serialized_size + 4;
                }
                fields.insert(name.to_owned(), declared);
            }
        }
        Self { shape: Shape::Object(fields), max_elements: 0, min_serialized_size: size }
    }

    fn string(schema: &Structural) -> Self {
        let max_length = schema.validation.max_length;
        match schema.validation.format.as_deref() {
            Some("byte") => Self::simple(Type::Bytes, 2, max_length.map_or(MAX_REQUEST_SIZE - 2, |max| max.max(0))),
            Some("duration") => Self::simple(Type::Duration, 3, 32),
            Some("date") => Self::simple(Type::Timestamp, 12, 12),
            Some("date-time") => Self::simple(Type::Timestamp, 21, 32),
            _ => {
                // A character takes up to four bytes, and requests are measured in bytes.
                let max = match max_length {
                    Some(max) => max.max(0).wrapping_mul(4),
                    None if schema.validation.allowed.is_empty() => MAX_REQUEST_SIZE - 2,
                    None => {
                        let longest = schema.validation.allowed.iter().filter_map(Value::as_str).map(str::len).max();
                        longest.unwrap_or(0) as i64
                    }
                };
                Self::simple(Type::String, 2, max)
            }
        }
    }
}

/// Returns whether a schema itself declares the metadata that the root of a resource always has.
fn declares_metadata(schema: &Structural) -> bool {
    let is =
        |schema: &Structural, name: &str, kind: Kind| schema.properties.get(name).is_some_and(|p| p.kind == Some(kind));
    is(schema, "kind", Kind::String)
        && is(schema, "apiVersion", Kind::String)
        && schema.properties.get("metadata").is_some_and(|metadata| {
            metadata.kind == Some(Kind::Object)
                && is(metadata, "name", Kind::String)
                && is(metadata, "generateName", Kind::String)
        })
}

#[cfg(test)]
mod tests;
