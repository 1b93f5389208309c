//! A definition in the server's inner form, which validation speaks of: what all versions have in common stands at
//! the top, not in each version, so that `spec.validation` or `spec.versions[0].schema` is blamed.

use serde_json::Value;

use super::schema::Props;
use crate::object::{boolean, items, text};

/// The spec of a definition.
#[derive(Debug)]
pub(super) struct Spec<'a> {
    pub(super) value: &'a Value,
    pub(super) versions: Vec<Version<'a>>,
    /// The schema of all versions: the object with `openAPIV3Schema`.
    pub(super) validation: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: Option<&'a Value>,
    pub(super) selectable: Option<&'a Value>,
    pub(super) preserve_unknown_fields: bool,
}

/// A version with what it does not share with all others.
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
    /// Reads the spec of a definition.
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

    /// The schemas: that of all versions, then those of each.
    pub(super) fn schemas(&self) -> impl Iterator<Item = Props<'a>> {
        self.values().filter(|schema| schema.is_object()).map(Props::new)
    }

    /// The schemas as they stand in the object; null where there is none.
    pub(super) fn values(&self) -> impl Iterator<Item = &'a Value> {
        let each = self.versions.iter().filter_map(|version| version.schema);
        self.validation.into_iter().chain(each).map(|validation| &validation["openAPIV3Schema"])
    }

    /// Whether a schema, or one within it, is such.
    pub(super) fn has_schema(&self, mut is_such: impl FnMut(Props<'a>) -> bool) -> bool {
        self.schemas().any(|schema| schema.any(&mut is_such))
    }

    /// The schema of a version, wherever it stands; `None` if there is no such version.
    pub(super) fn schema_of(&self, name: &str) -> Option<Option<&'a Value>> {
        if self.versions.iter().all(|version| version.schema.is_none()) {
            return Some(self.validation);
        }
        self.versions.iter().find(|version| version.name == name).map(|version| version.schema)
    }

    /// Whether the first version of a name has a status subresource.
    pub(super) fn has_status(&self, name: &str) -> bool {
        let version = self.versions.iter().find(|version| version.name == name);
        has_status(self.subresources) || version.is_some_and(|version| has_status(version.subresources))
    }

    /// Whether some version has a status subresource.
    pub(super) fn has_any_status(&self) -> bool {
        has_status(self.subresources) || self.versions.iter().any(|version| has_status(version.subresources))
    }
}

fn has_status(subresources: Option<&Value>) -> bool {
    subresources.is_some_and(|subresources| subresources["status"].is_object())
}

/// The schema in a `schema` field.
pub(super) fn open_api(validation: &Value) -> Option<Props<'_>> {
    validation.get("openAPIV3Schema").filter(|schema| schema.is_object()).map(Props::new)
}

/// Whether two fields say the same; an empty list says as much as none.
pub(super) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let empty = |value: Option<&Value>| value.is_none_or(|value| value.as_array().is_some_and(Vec::is_empty));
    one == other || (empty(one) && empty(other))
}
