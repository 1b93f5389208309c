//! Objects of built-in kinds of which nothing is set.

use serde_json::{Map, Value};
use windlass_schema::types::{Field, Scalar, StructId, Type, TypeTable};

/// What Go writes of a zero value of a built-in kind: the object that a create is compared with. Nobody comes to own a
/// struct that is always there, so this decides whether an entry has `f:spec` itself or only what is below it.
pub fn empty_object(table: &TypeTable, id: StructId, api_version: &str, kind: &str) -> Value {
    let mut object = zero_struct(table, id);
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Value::Object(object)
}

fn zero_struct(table: &TypeTable, id: StructId) -> Map<String, Value> {
    let written = table.get(id).fields.iter().filter(|field| !field.omit_empty);
    written.map(|field| (field.name.to_string(), zero_field(table, field))).collect()
}

fn zero_field(table: &TypeTable, field: &Field) -> Value {
    match &field.ty {
        _ if field.pointer => Value::Null,
        // Structs contain each other only through pointers, lists and maps, so this ends.
        Type::Struct(id) => Value::Object(zero_struct(table, *id)),
        Type::List(_) | Type::Map(_) => Value::Null,
        Type::Scalar(scalar) => match scalar {
            Scalar::String => "".into(),
            Scalar::Bool => false.into(),
            Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::IntOrString => 0.into(),
            Scalar::Quantity => "0".into(),
            Scalar::Duration => "0s".into(),
            Scalar::Bytes
            | Scalar::Time
            | Scalar::MicroTime
            | Scalar::RawExtension
            | Scalar::FieldsV1
            | Scalar::Json => Value::Null,
        },
    }
}
