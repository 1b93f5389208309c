//! What is published of custom resources: the schema of a definition's version, its list and its paths.
//!
//! Version 3 has a document for each group version, which holds all it refers to. Version 2 is one document for everything:
//! [`v2_parts`] is what custom resources add to it, and [`v2_text`] and [`v2_protobuf`] write the whole.

use serde_json::{Map, Value, json};
use windlass_schema::types::StructId;

use super::operations::{self, META};
use super::{Dialect, Subject, schemas_with_references, v2, v3};
use crate::resource::{Resource, Subresource, Table};

mod schema;
#[cfg(test)]
mod tests;

const SCALE: [&str; 3] = ["autoscaling", "v1", "Scale"];

/// A version of a definition, as far as it is published.
#[derive(Debug, Clone, Copy)]
pub struct CustomSubject<'a> {
    /// The group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The kind of lists.
    pub list_kind: &'a str,
    /// The plural name.
    pub plural: &'a str,
    /// The singular name.
    pub singular: &'a str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// `openAPIV3Schema`; none if there is none or it is not structural.
    pub schema: Option<&'a Value>,
    /// Whether there is a status subresource.
    pub status: bool,
    /// Whether there is a scale subresource.
    pub scale: bool,
    /// `spec.preserveUnknownFields`, which old definitions have.
    pub preserve_unknown_fields: bool,
    /// `selectableFields`, a list of objects with `jsonPath`.
    pub selectable_fields: &'a [Value],
}

/// What custom resources add to the document of version 2.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    /// `paths`
    pub paths: Map<String, Value>,
    /// `definitions`
    pub definitions: Map<String, Value>,
}

impl<'a> CustomSubject<'a> {
    /// The version of this name in a definition of `apiextensions.k8s.io/v1`; none if there is none such or the
    /// definition lacks what every one has.
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
        })
    }

    /// The name of a kind's schema: the group backwards, then version and kind.
    fn schema_name(&self, kind: &str) -> String {
        let group: Vec<_> = self.group.rsplit('.').collect();
        format!("{}.{}.{kind}", group.join("."), self.version)
    }

    fn resource(&self, table: &Table) -> Resource {
        let owned = |text: &str| text.to_owned().into();
        let verbs = |verbs: &[&str]| verbs.iter().map(|verb| owned(verb)).collect();
        let subresource = |[group, version, kind]: [&str; 3], name: &str, ty| Subresource {
            name: owned(name),
            group: owned(group),
            version: owned(version),
            kind: owned(kind),
            verbs: verbs(&["get", "patch", "update"]),
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
            verbs: verbs(&["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
            storage_version_hash: "".into(),
            deletion_returns_object: false,
            // Never looked at: the schema has a name of its own.
            ty: StructId(0),
            subresources: status.into_iter().chain(scale).collect(),
        }
    }

    /// Adds the paths and schemas to these, and the names of what they refer to.
    fn publish(&self, dialect: Dialect, table: &Table, into: &mut Parts, references: &mut Vec<String>) {
        let (object, list) = (self.schema_name(self.kind), self.schema_name(self.list_kind));
        let resource = self.resource(table);
        let subject = Subject { resource: &resource, object: &object, list: Some(&list), custom: true };
        let items = operations::of(&subject, table);
        references.extend(v3::schema_names(&items));
        match dialect {
            Dialect::V2 => into.paths.extend(v2::paths(&items, true)),
            Dialect::V3 => into.paths.extend(v3::paths(&items, true)),
        }
        into.definitions.insert(list, schema::of_list(self, &object, dialect));
        into.definitions.insert(object, schema::of_object(self, dialect));
    }
}

/// `/openapi/v3/apis/GROUP/VERSION` of a group version that only these definitions are of.
pub fn v3_document(group: &str, version: &str, subjects: &[CustomSubject<'_>], table: &Table) -> Value {
    let mut parts = Parts::default();
    let mut references = vec![format!("{META}ObjectMeta"), format!("{META}ListMeta")];
    for subject in subjects {
        subject.publish(Dialect::V3, table, &mut parts, &mut references);
    }
    let mut schemas = schemas_with_references(references, &[(group, version)], Dialect::V3, table);
    schemas.append(&mut parts.definitions);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": parts.paths,
        "components": {"schemas": schemas},
    })
}

/// What these definitions add to `/openapi/v2`. What they refer to is in the document already, and so are the parameters.
pub fn v2_parts(subjects: &[CustomSubject<'_>], table: &Table) -> Parts {
    let mut parts = Parts::default();
    for subject in subjects {
        subject.publish(Dialect::V2, table, &mut parts, &mut Vec::new());
    }
    parts
}

/// The text of `/openapi/v2` with these parts. What the table has stands where both have something.
pub fn v2_text(parts: Parts, table: &Table) -> Vec<u8> {
    v2::Document::new(table, parts).text()
}

/// The protobuf form of `/openapi/v2` with these parts.
pub fn v2_protobuf(parts: Parts, table: &Table) -> Vec<u8> {
    v2::Document::new(table, parts).protobuf()
}
