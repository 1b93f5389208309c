//! kube-apiserver's internal version of a CRD, to which validation errors refer: fields that all versions share are at
//! the top of the spec, so an error is reported for `spec.validation` or for `spec.versions[0].schema`.

use serde_json::Value;

use super::schema::Props;
use crate::object::{boolean, items, text};

/// The spec of a CRD.
#[derive(Debug)]
pub(super) struct Spec<'a> {
    pub(super) value: &'a Value,
    pub(super) versions: Vec<Version<'a>>,
    /// The schema that all versions share: the object with `openAPIV3Schema`.
    pub(super) validation: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: Option<&'a Value>,
    pub(super) selectable: Option<&'a Value>,
    pub(super) preserve_unknown_fields: bool,
}

/// A version, with the fields that not all versions share.
#[derive(Debug)]
pub(super) struct Version<'a> {
    pub(super) value: &'a Value,
    pub(super) name: &'a str,
    pub(super) schema: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: Option<&'a Value>,
    pub(super) selectable: Option<&'a Value>,
}

impl<'a> Spec<'a> {
    /// Reads the spec of a CRD.
    pub(super) fn new(object: &'a Value) -> Self {
        let all = items(object, "/spec/versions");
        let field = |version: &'a Value, name| version.get(name).filter(|value| !value.is_null());
        let first = all.first();
        let shared = |name: &'static str| {
            let first = first.and_then(|first| field(first, name));
            all.iter().all(|version| same(field(version, name), first)).then_some(first)
        };
        let (schema, subresources) = (shared("schema"), shared("subresources"));
        let (columns, selectable) = (shared("additionalPrinterColumns"), shared("selectableFields"));
        let version = |version: &'a Value| Version {
            value: version,
            name: text(version, "/name"),
            schema: schema.map_or(field(version, "schema"), |_| None),
            subresources: subresources.map_or(field(version, "subresources"), |_| None),
            columns: columns.map_or(field(version, "additionalPrinterColumns"), |_| None),
            selectable: selectable.map_or(field(version, "selectableFields"), |_| None),
        };
        Self {
            value: object.get("spec").unwrap_or(&Value::Null),
            versions: all.iter().map(version).collect(),
            validation: schema.flatten(),
            subresources: subresources.flatten(),
            columns: columns.flatten(),
            selectable: selectable.flatten(),
            preserve_unknown_fields: boolean(object, "/spec/preserveUnknownFields").unwrap_or_default(),
        }
    }

    /// Returns the schemas: the shared one, then those of the versions.
    pub(super) fn schemas(&self) -> impl Iterator<Item = Props<'a>> {
        self.values().filter(|schema| schema.is_object()).map(Props::new)
    }

    /// Returns the schemas as in the object; null if there is none.
    pub(super) fn values(&self) -> impl Iterator<Item = &'a Value> {
        let each = self.versions.iter().filter_map(|version| version.schema);
        self.validation.into_iter().chain(each).map(|validation| &validation["openAPIV3Schema"])
    }

    /// Returns whether a schema, at any depth, satisfies a predicate.
    pub(super) fn has_schema(&self, mut is_such: impl FnMut(Props<'a>) -> bool) -> bool {
        self.schemas().any(|schema| schema.any(&mut is_such))
    }

    /// Returns the schema of a version, shared or its own; `None` if there is no such version.
    pub(super) fn schema_of(&self, name: &str) -> Option<Option<&'a Value>> {
        if self.versions.iter().all(|version| version.schema.is_none()) {
            return Some(self.validation);
        }
        self.versions.iter().find(|version| version.name == name).map(|version| version.schema)
    }

    /// Returns whether the first version with this name has a status subresource.
    pub(super) fn has_status(&self, name: &str) -> bool {
        let version = self.versions.iter().find(|version| version.name == name);
        has_status(self.subresources) || version.is_some_and(|version| has_status(version.subresources))
    }

    /// Returns whether any version has a status subresource.
    pub(super) fn has_any_status(&self) -> bool {
        has_status(self.subresources) || self.versions.iter().any(|version| has_status(version.subresources))
    }
}

fn has_status(subresources: Option<&Value>) -> bool {
    subresources.is_some_and(|subresources| subresources["status"].is_object())
}

/// Returns the schema in a `schema` field.
pub(super) fn open_api(validation: &Value) -> Option<Props<'_>> {
    validation.get("openAPIV3Schema").filter(|schema| schema.is_object()).map(Props::new)
}

/// Returns whether two fields are equal; an empty list is equal to an absent one.
pub(super) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let empty = |value: Option<&Value>| value.is_none_or(|value| value.as_array().is_some_and(Vec::is_empty));
    one == other || (empty(one) && empty(other))
}
