//! Merge schemas of custom resources, as in their published OpenAPI.

use serde_json::Value;
use windlass_schema::structural::{Additional, Kind, ListType, Structural};
use windlass_schema::types::{StructId, TypeTable};

use super::{Inner, KeyNames, Kinds, ListTopology, ScalarType, TypeRef, builtin};

/// A place in a custom resource.
#[derive(Debug, Clone, Copy)]
pub(super) struct Custom<'t> {
    schema: &'t Structural,
    table: &'t TypeTable,
    object_meta: StructId,
    /// Whether this or an outer schema preserves unknown fields, whose types are then deduced.
    preserves: bool,
    /// Whether this is an object with `apiVersion`, `kind` and `metadata`.
    object: bool,
}

impl<'t> Custom<'t> {
    pub(super) fn root(schema: &'t Structural, table: &'t TypeTable, object_meta: StructId) -> Self {
        Self { schema, table, object_meta, preserves: schema.preserve_unknown_fields, object: true }
    }

    pub(super) fn kinds(self) -> Kinds {
        match self.schema.kind {
            None => Kinds::All,
            Some(Kind::Object) => Kinds::Map,
            Some(Kind::Array) => Kinds::List,
            Some(Kind::Integer | Kind::Number) => Kinds::Scalar(ScalarType::Numeric),
            Some(Kind::Boolean) => Kinds::Scalar(ScalarType::Boolean),
            Some(Kind::String) => match self.schema.validation.format.as_deref() {
                None | Some("" | "byte") => Kinds::Scalar(ScalarType::String),
                Some(_) => Kinds::Scalar(ScalarType::Untyped),
            },
        }
    }

    pub(super) fn field(self, name: &str) -> Option<TypeRef<'t>> {
        if self.object {
            match name {
                "metadata" => return Some(TypeRef::built_in(self.table, self.object_meta)),
                "apiVersion" | "kind" => return Some(TypeRef(Inner::Scalar(ScalarType::String))),
                _ => {}
            }
        }
        self.schema.properties.get(name).map(|schema| self.within(schema))
    }

    pub(super) fn map_element(self) -> Option<TypeRef<'t>> {
        match &self.schema.additional {
            Additional::Schema(schema) => Some(self.within(schema)),
            Additional::Bool(true) => Some(TypeRef::DEDUCED),
            Additional::Bool(false) => None,
            Additional::Absent => (self.preserves || !self.declares_fields()).then_some(TypeRef::DEDUCED),
        }
    }

    pub(super) fn atomic_map(self) -> bool {
        self.schema.atomic_map
    }

    pub(super) fn deduced_map(self) -> bool {
        !self.declares_fields()
            && match self.map_element().map(|element| element.0) {
                Some(Inner::Deduced) => true,
                Some(Inner::Custom(element)) => {
                    matches!(element.kinds(), Kinds::All | Kinds::Scalar(ScalarType::Untyped))
                }
                _ => false,
            }
    }

    pub(super) fn list_element(self) -> TypeRef<'t> {
        self.schema.items.as_deref().map_or(TypeRef::UNTYPED, |items| self.within(items))
    }

    pub(super) fn topology(self) -> ListTopology<'t> {
        match &self.schema.list_type {
            ListType::Absent | ListType::Atomic => ListTopology::Atomic,
            ListType::Set => ListTopology::Set,
            ListType::Map(keys) => builtin::keyed(KeyNames::Custom(keys)),
        }
    }

    pub(super) fn default_of(self, field: &str) -> Option<&'t Value> {
        self.schema.properties.get(field)?.default.as_ref()
    }

    fn declares_fields(self) -> bool {
        self.object || !self.schema.properties.is_empty()
    }

    fn within(self, schema: &'t Structural) -> TypeRef<'t> {
        let preserves = self.preserves || schema.preserve_unknown_fields;
        TypeRef(Inner::Custom(Self { schema, preserves, object: schema.embedded_resource, ..self }))
    }
}
