//! Merge schemas of built-in types, as in their OpenAPI definitions.

use windlass_schema::types::{Field, Scalar, Struct, Topology, Type, TypeTable};

use super::{Inner, KeyNames, Keys, Kinds, ListTopology, ScalarType, TypeRef};

pub(super) fn kinds(ty: &Type, field: Option<&Field>) -> Kinds {
    match ty {
        Type::Struct(_) | Type::Map(_) => Kinds::Map,
        Type::List(_) => Kinds::List,
        Type::Scalar(scalar) => match scalar {
            Scalar::String => match field.and_then(|field| field.format.as_deref()) {
                None | Some("" | "byte") => Kinds::Scalar(ScalarType::String),
                Some(_) => Kinds::Scalar(ScalarType::Untyped),
            },
            Scalar::Bytes | Scalar::Duration => Kinds::Scalar(ScalarType::String),
            Scalar::Bool => Kinds::Scalar(ScalarType::Boolean),
            Scalar::Int32 | Scalar::Int64 | Scalar::Float64 => Kinds::Scalar(ScalarType::Numeric),
            Scalar::Quantity | Scalar::Time | Scalar::MicroTime => Kinds::Scalar(ScalarType::Untyped),
            Scalar::IntOrString | Scalar::Json | Scalar::RawExtension => Kinds::All,
            Scalar::FieldsV1 => Kinds::Map,
        },
    }
}

pub(super) fn field<'t>(table: &'t TypeTable, owner: &'t Struct, name: &str) -> Option<TypeRef<'t>> {
    let field = owner.field(name)?;
    Some(match &field.ty {
        // Only a field of a struct type can override the topology of the struct.
        Type::Struct(id) if field.topology == Topology::Default => TypeRef(Inner::Struct(table, table.get(*id))),
        Type::Scalar(Scalar::RawExtension) => TypeRef::UNTYPED,
        ty => TypeRef(Inner::BuiltIn(table, ty, Some(field))),
    })
}

pub(super) fn nested<'t>(table: &'t TypeTable, ty: &'t Type) -> TypeRef<'t> {
    match ty {
        Type::Struct(id) => TypeRef(Inner::Struct(table, table.get(*id))),
        Type::Scalar(Scalar::RawExtension) => TypeRef::UNTYPED,
        ty => TypeRef(Inner::BuiltIn(table, ty, None)),
    }
}

/// A struct without fields accepts any; all others accept only the declared ones.
pub(super) fn unknown<'t>(owner: &Struct) -> Option<TypeRef<'t>> {
    owner.fields.is_empty().then_some(TypeRef::DEDUCED)
}

pub(super) fn map_element<'t>(table: &'t TypeTable, ty: &'t Type) -> Option<TypeRef<'t>> {
    match ty {
        Type::Map(element) => Some(nested(table, element)),
        Type::Struct(id) => unknown(table.get(*id)),
        Type::Scalar(Scalar::IntOrString | Scalar::Json | Scalar::FieldsV1) => Some(TypeRef::DEDUCED),
        Type::List(_) | Type::Scalar(_) => None,
    }
}

pub(super) fn atomic_map(table: &TypeTable, ty: &Type, field: Option<&Field>) -> bool {
    match (field.map(|field| &field.topology), ty) {
        (Some(Topology::Atomic), _) => true,
        (Some(Topology::Granular), _) => false,
        (_, Type::Struct(id)) => table.get(*id).atomic,
        _ => false,
    }
}

pub(super) fn deduced_map(table: &TypeTable, ty: &Type) -> bool {
    match ty {
        Type::Struct(id) => table.get(*id).fields.is_empty(),
        Type::Scalar(scalar) => matches!(scalar, Scalar::IntOrString | Scalar::Json | Scalar::FieldsV1),
        Type::List(_) | Type::Map(_) => false,
    }
}

/// A list without a list type for server-side apply merges as in a strategic merge patch.
pub(super) fn topology(field: &Field) -> ListTopology<'_> {
    match &field.topology {
        Topology::Set => ListTopology::Set,
        Topology::Map(keys) => keyed(KeyNames::BuiltIn(keys)),
        Topology::Default if field.patch.merge => match &field.patch.merge_key {
            Some(key) => keyed(KeyNames::BuiltIn(std::slice::from_ref(key))),
            None => ListTopology::Set,
        },
        Topology::Default | Topology::Atomic | Topology::Granular => ListTopology::Atomic,
    }
}

pub(super) fn keyed(names: KeyNames<'_>) -> ListTopology<'_> {
    let keys = Keys(names);
    if keys.is_empty() { ListTopology::Set } else { ListTopology::Map(keys) }
}
