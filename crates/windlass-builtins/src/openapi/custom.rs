//! OpenAPI of custom resources: the schema of a CRD version, its list and its paths.
//!
//! Version 3 has a self-contained document per group version. Version 2 is a single document: [`v2_parts`] returns what
//! custom resources add to it, and [`v2_text`] and [`v2_protobuf`] write the whole.

use serde_json::{Map, Value, json};
use windlass_schema::types::StructId;

use super::operations::{self, META};
use super::{Dialect, Sources, Subject, schemas_with_references, v2, v3};
use crate::resource::{Resource, Subresource, Table};
use crate::verb::Verb;

mod schema;
#[cfg(test)]
mod tests;

const SCALE: [&str; 3] = ["autoscaling", "v1", "Scale"];

/// The published properties of a CRD version.
#[derive(Debug, Clone, Copy)]
pub struct CustomSubject<'a> {
    /// Group.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Kind of lists.
    pub list_kind: &'a str,
    /// Plural name.
    pub plural: &'a str,
    /// Singular name.
    pub singular: &'a str,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// `openAPIV3Schema`; `None` if it is absent or not structural.
    pub schema: Option<&'a Value>,
    /// Whether the status subresource is enabled.
    pub status: bool,
    /// Whether the scale subresource is enabled.
    pub scale: bool,
    /// `spec.preserveUnknownFields`, which old CRDs set.
    pub preserve_unknown_fields: bool,
    /// `selectableFields`, a list of objects with `jsonPath`.
    pub selectable_fields: &'a [Value],
    /// Whether objects can only be read: with `get` and `list`.
    pub read_only: bool,
}

/// The paths and schemas that custom resources add to the document of version 2.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    /// `paths`
    pub paths: Map<String, Value>,
    /// `definitions`
    pub definitions: Map<String, Value>,
}

impl<'a> CustomSubject<'a> {
    /// Reads a version of a CustomResourceDefinition of `apiextensions.k8s.io/v1`; `None` if it has no such version or
    /// lacks required fields.
    pub fn of_definition(definition: &'a Value, version: &str) -> Option<Self> {
        let spec = definition.get("spec")?;
        let names = spec.get("names")?;
        let name = |name: &str| names.get(name).and_then(Value::as_str);
        let mut versions = spec.get("versions")?.as_array()?.iter();
        let of = versions.find(|of| of.get("name").and_then(Value::as_str) == Some(version))?;
        let subresource = |name: &str| of.pointer(&format!("/subresources/{name}")).is_some_and(|it| !it.is_null());
        Some(Self {
            group: spec.get("group")?.as_str()?,
            version: of.get("name")?.as_str()?,
            kind: name("kind")?,
            list_kind: name("listKind").unwrap_or_default(),
            plural: name("plural")?,
            singular: name("singular").unwrap_or_default(),
            namespaced: spec.get("scope").and_then(Value::as_str) == Some("Namespaced"),
            schema: of.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object()),
            status: subresource("status"),
            scale: subresource("scale"),
            preserve_unknown_fields: spec.get("preserveUnknownFields").and_then(Value::as_bool) == Some(true),
            selectable_fields: of.get("selectableFields").and_then(Value::as_array).map_or(&[], Vec::as_slice),
            read_only: false,
        })
    }

    /// Returns the name of a kind's schema: the reversed group, then version and kind.
    fn schema_name(&self, kind: &str) -> String {
        let group: Vec<_> = self.group.rsplit('.').collect();
        format!("{}.{}.{kind}", group.join("."), self.version)
    }

    fn resource(&self, table: &Table) -> Resource {
        let owned = |text: &str| text.to_owned().into();
        let subresource = |[group, version, kind]: [&str; 3], name: &str, ty| Subresource {
            name: owned(name),
            group: owned(group),
            version: owned(version),
            kind: owned(kind),
            verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
            ty,
        };
        let status = self.status.then(|| subresource(["", "", self.kind], "status", None));
        let scale = self.scale.then(|| subresource(SCALE, "scale", table.kind("autoscaling/v1", "Scale")));
        Resource {
            group: owned(self.group),
            version: owned(self.version),
            plural: owned(self.plural),
            singular: owned(self.singular),
            kind: owned(self.kind),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: self.namespaced,
            verbs: match self.read_only {
                true => vec![Verb::Get, Verb::List],
                false => Verb::ALL.to_vec(),
            },
            storage_version_hash: "".into(),
            deletion_returns_object: false,
            // Never used: the schema is named explicitly.
            ty: StructId(0),
            subresources: status.into_iter().chain(scale).collect(),
        }
    }

    /// Adds the paths and schemas of this version, and the names of the schemas they refer to.
    fn publish(&self, dialect: Dialect, sources: Sources<'_>, into: &mut Parts, references: &mut Vec<String>) {
        let (table, descriptions) = (sources.table, sources.descriptions);
        let (object, list) = (self.schema_name(self.kind), self.schema_name(self.list_kind));
        let resource = self.resource(table);
        let subject = Subject { resource: &resource, object: &object, list: Some(&list), custom: true };
        let items = operations::of(&subject, table);
        references.extend(v3::schema_names(&items));
        match dialect {
            Dialect::V2 => into.paths.extend(v2::paths(&items, true)),
            Dialect::V3 => into.paths.extend(v3::paths(&items, true, descriptions)),
        }
        into.definitions.insert(list, schema::of_list(self, &object, dialect, descriptions));
        into.definitions.insert(object, schema::of_object(self, dialect, descriptions));
    }
}

/// Returns `/openapi/v3/apis/GROUP/VERSION` for a group version that consists of custom resources only.
pub fn v3_document(group: &str, version: &str, subjects: &[CustomSubject<'_>], sources: Sources<'_>) -> Value {
    let mut parts = Parts::default();
    let mut references = vec![format!("{META}ObjectMeta"), format!("{META}ListMeta")];
    for subject in subjects {
        subject.publish(Dialect::V3, sources, &mut parts, &mut references);
    }
    let mut schemas = schemas_with_references(references, &[(group, version)], Dialect::V3, sources);
    schemas.append(&mut parts.definitions);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": parts.paths,
        "components": {"schemas": schemas},
    })
}

/// Returns what these custom resources add to `/openapi/v2`, which already has the parameters and the schemas they
/// refer to.
pub fn v2_parts(subjects: &[CustomSubject<'_>], sources: Sources<'_>) -> Parts {
    let mut parts = Parts::default();
    for subject in subjects {
        subject.publish(Dialect::V2, sources, &mut parts, &mut Vec::new());
    }
    parts
}

/// Returns the text of `/openapi/v2` with these parts. Entries of the table take precedence.
pub fn v2_text(parts: Parts, sources: Sources<'_>) -> Vec<u8> {
    v2::Document::new(sources, parts).text()
}

/// Returns the protobuf form of `/openapi/v2` with these parts.
pub fn v2_protobuf(parts: Parts, sources: Sources<'_>) -> Vec<u8> {
    v2::Document::new(sources, parts).protobuf()
}
