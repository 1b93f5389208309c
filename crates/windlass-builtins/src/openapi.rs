//! OpenAPI documents generated from the table: version 3 per group version, version 2 as a whole, as JSON and as
//! protobuf.
//!
//! The documents contain what clients need: schemas with their kinds, list types, merge keys, required fields and
//! defaults; paths with operations, actions and query parameters. Descriptions of schemas and properties are the
//! caller's ([`Descriptions`]). Documents are rebuilt on every call, which takes milliseconds; the caller keeps the
//! bytes.
//!
//! An API that is not in the table is described by a [`Subject`]; [`v3_paths`] and [`v2_paths`] return its paths, to be
//! combined with its own schema. [`custom`] does so for custom resources, whose schemas come from their
//! CustomResourceDefinitions.

use serde_json::{Map, Value, json};
use windlass_schema::sorting::Gather as _;

use crate::resource::{Resource, Table};

pub mod custom;
mod gnostic;
mod names;
mod operations;
mod parameters;
mod schemas;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

pub use schemas::Dialect;

/// A resource, as needed to generate its paths.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// Name of the object's schema.
    pub object: &'a str,
    /// Name of the list's schema, if the resource can be listed.
    pub list: Option<&'a str>,
    /// Whether it is a custom resource, which has neither protobuf, strategic merge patches nor the old watch paths.
    pub custom: bool,
}

/// Descriptions of schemas and their properties, by the schemas' names.
pub trait Descriptions {
    /// Returns the description of a schema.
    fn schema(&self, name: &str) -> Option<&str>;
    /// Returns the description of a property.
    fn property(&self, schema: &str, property: &str) -> Option<&str>;
}

/// No descriptions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDescriptions;

impl Descriptions for NoDescriptions {
    fn schema(&self, _: &str) -> Option<&str> {
        None
    }

    fn property(&self, _: &str, _: &str) -> Option<&str> {
        None
    }
}

/// The sources of documents.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Types and resources.
    pub table: &'a Table,
    /// Descriptions of the types.
    pub descriptions: &'a dyn Descriptions,
}

impl<'a> Sources<'a> {
    /// Returns a table as the only source.
    pub fn plain(table: &'a Table) -> Self {
        Self { table, descriptions: &NoDescriptions }
    }
}

/// Returns the path of a group version, as named in the index of version 3: `api/v1` or `apis/apps/v1`.
pub fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Returns `/openapi/v3`, the index of the documents. Each document comes with its [`group_version_path`] and a hash of
/// its bytes, which clients use as a cache key.
pub fn v3_index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let entry = |(path, hash): (&str, &str)| {
        (path.to_owned(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}))
    };
    json!({"paths": documents.into_iter().map(entry).gather::<Map<_, _>>()})
}

/// Returns a hash for [`v3_index`]: 32 hexadecimal digits (FNV-1a of 128 bits). It is not cryptographic.
pub fn hash(document: &[u8]) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let hash = document.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    format!("{hash:032X}")
}

/// Returns `/openapi/v3/apis/GROUP/VERSION` for a group version of the table; `None` if it has no such group version.
pub fn v3_document(group: &str, version: &str, sources: Sources<'_>) -> Option<Value> {
    v3::Document::new(group, version, sources).map(|document| document.value())
}

/// Returns the text of [`v3_document`], written piece by piece: a tree of the whole document takes ten times the
/// memory.
pub fn v3_text(group: &str, version: &str, sources: Sources<'_>) -> Option<Vec<u8>> {
    v3::Document::new(group, version, sources).map(|document| document.text())
}

/// Returns the paths of a resource in version 3.
pub fn v3_paths(subject: &Subject<'_>, sources: Sources<'_>) -> Map<String, Value> {
    v3::paths(&operations::of(subject, sources.table), subject.custom, sources.descriptions).collect()
}

/// Returns `/openapi/v2` for all group versions of the table.
pub fn v2_document(sources: Sources<'_>) -> Value {
    v2::Document::new(sources, custom::Parts::default()).value()
}

/// Returns the text of [`v2_document`], written piece by piece.
pub fn v2_text(sources: Sources<'_>) -> Vec<u8> {
    v2::Document::new(sources, custom::Parts::default()).text()
}

/// Returns the protobuf form of [`v2_document`], written piece by piece:
/// `application/com.github.proto-openapi.spec.v2@v1.0+protobuf`.
pub fn v2_protobuf(sources: Sources<'_>) -> Vec<u8> {
    v2::Document::new(sources, custom::Parts::default()).protobuf()
}

/// Returns the protobuf form of any document of version 2. Fields that are neither used by our documents nor extensions
/// are omitted.
pub fn v2_to_protobuf(document: &Value) -> Vec<u8> {
    gnostic::encode(document)
}

/// Returns the paths of a resource in version 2. Their parameters are part of [`v2_document`].
pub fn v2_paths(subject: &Subject<'_>, table: &Table) -> Map<String, Value> {
    v2::paths(&operations::of(subject, table), subject.custom).collect()
}

/// Returns the schemas with these names and all schemas they refer to, for a document of these group versions. Names
/// that are not in the table are omitted.
pub fn schemas_with_references(
    names: impl IntoIterator<Item = String>,
    group_versions: &[(&str, &str)],
    dialect: Dialect,
    sources: Sources<'_>,
) -> Map<String, Value> {
    let schema = |name: String| {
        let schema = schemas::schema(&name, group_versions, dialect, sources)?;
        Some((name, schema))
    };
    schemas::closure(names, sources.table).into_iter().filter_map(schema).gather()
}

/// Writes a JSON object from its entries.
fn write_object(into: &mut Vec<u8>, entries: impl Iterator<Item = (String, Value)>) {
    into.push(b'{');
    for (position, (name, value)) in entries.enumerate() {
        if position > 0 {
            into.push(b',');
        }
        write_value(into, &Value::String(name));
        into.push(b':');
        write_value(into, &value);
    }
    into.push(b'}');
}

fn write_value(into: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(into, value).expect("a value must be writable to memory");
}

/// Returns every resource of a group version, or of the whole table, with the names of its schemas.
fn subjects<'a>(table: &'a Table, of: Option<(&str, &str)>) -> Vec<Subject<'a>> {
    let wanted = |resource: &&Resource| of.is_none_or(|(g, v)| resource.group == g && resource.version == v);
    let subject = |resource: &'a Resource| {
        let list = table.kind(&resource.api_version(), &format!("{}List", resource.kind));
        Subject {
            resource,
            object: &table.types.get(resource.ty).name,
            list: list.map(|id| &*table.types.get(id).name),
            custom: false,
        }
    };
    table.resources.iter().filter(wanted).map(subject).collect()
}
