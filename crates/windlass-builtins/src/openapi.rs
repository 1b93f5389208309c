//! OpenAPI documents from the table: version 3 by group version, version 2 as a whole, as JSON and as protobuf.
//!
//! The documents say what clients look for: schemas with their kinds, list types, merge keys, required fields and
//! defaults; paths with operations, actions and query parameters. They carry no prose. They are built anew at every
//! call, in milliseconds: the caller keeps the bytes.
//!
//! An API that is not in the table is described by a [`Subject`]; [`v3_paths`] and [`v2_paths`] give its paths, to stand
//! beside a schema of its own. [`custom`] does so for custom resources, whose schemas come from their definitions.

use serde_json::{Map, Value, json};

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

/// A resource as its paths need it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The name of the object's schema.
    pub object: &'a str,
    /// The name of the list's schema, where the resource can be listed.
    pub list: Option<&'a str>,
    /// Whether it is a custom resource: those have neither protobuf, strategic merge patches nor the old watch paths.
    pub custom: bool,
}

/// `api/v1` or `apis/apps/v1`: the path of a group version, as the index of version 3 names it.
pub fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `/openapi/v3`: where the documents are. Each comes with its [`group_version_path`] and a hash of its bytes, which
/// clients keep as the name of the document's content.
pub fn v3_index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let entry = |(path, hash): (&str, &str)| {
        (path.to_owned(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}))
    };
    json!({"paths": documents.into_iter().map(entry).collect::<Map<_, _>>()})
}

/// A hash for [`v3_index`]: 32 hexadecimal digits (FNV-1a of 128 bits), not meant to resist attack.
pub fn hash(document: &[u8]) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let hash = document.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    format!("{hash:032X}")
}

/// `/openapi/v3/apis/GROUP/VERSION` of a group version of the table; none if it has none such.
pub fn v3_document(group: &str, version: &str, table: &Table) -> Option<Value> {
    v3::Document::new(group, version, table).map(|document| document.value())
}

/// The text of [`v3_document`], made piece by piece: a tree of the whole takes ten times the memory.
pub fn v3_text(group: &str, version: &str, table: &Table) -> Option<Vec<u8>> {
    v3::Document::new(group, version, table).map(|document| document.text())
}

/// The paths of a resource as version 3 has them.
pub fn v3_paths(subject: &Subject<'_>, table: &Table) -> Map<String, Value> {
    v3::paths(&operations::of(subject, table), subject.custom).collect()
}

/// `/openapi/v2` of all group versions of the table.
pub fn v2_document(table: &Table) -> Value {
    v2::Document::new(table, custom::Parts::default()).value()
}

/// The text of [`v2_document`], made piece by piece.
pub fn v2_text(table: &Table) -> Vec<u8> {
    v2::Document::new(table, custom::Parts::default()).text()
}

/// The protobuf form of [`v2_document`], made piece by piece:
/// `application/com.github.proto-openapi.spec.v2@v1.0+protobuf`.
pub fn v2_protobuf(table: &Table) -> Vec<u8> {
    v2::Document::new(table, custom::Parts::default()).protobuf()
}

/// The protobuf form of any document of version 2. What is neither a field that our documents use nor an extension is
/// left out.
pub fn v2_to_protobuf(document: &Value) -> Vec<u8> {
    gnostic::encode(document)
}

/// The paths of a resource as version 2 has them. Their parameters stand in the document of [`v2_document`].
pub fn v2_paths(subject: &Subject<'_>, table: &Table) -> Map<String, Value> {
    v2::paths(&operations::of(subject, table), subject.custom).collect()
}

/// The schemas of these names and of all they refer to, for a document of these group versions. Names that the table
/// does not know are left out.
pub fn schemas_with_references(
    names: impl IntoIterator<Item = String>,
    group_versions: &[(&str, &str)],
    dialect: Dialect,
    table: &Table,
) -> Map<String, Value> {
    let schema = |name: String| {
        let schema = schemas::schema(&name, group_versions, dialect, table)?;
        Some((name, schema))
    };
    schemas::closure(names, table).into_iter().filter_map(schema).collect()
}

/// Writes an object's text from its entries.
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

/// Every resource of a group version, or of the whole table, with the names of its schemas.
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
