//! Zero values: what Go's JSON encoder writes for a field that nobody set.

use serde_json::{Map, Value, json};
use windlass_schema::types::{Field, Scalar, Struct, Type};

use crate::resource::Table;

/// Adds the fields that are absent and that Go writes even when they are zero.
pub(super) fn fill(object: &mut Map<String, Value>, structure: &Struct, table: &Table) {
    for field in &structure.fields {
        if !field.omit_empty && !object.contains_key(&*field.name) {
            let zero = if field.pointer { Value::Null } else { value(&field.ty, table) };
            object.insert(field.name.to_string(), zero);
        }
    }
}

/// Whether Go leaves this value of the field out.
pub(super) fn is_left_out(field: &Field, value: &Value) -> bool {
    if !field.omit_empty || field.pointer {
        return false;
    }
    match value {
        Value::Null => true,
        Value::Bool(bool) => !bool,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(string) => string.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(_) => false,
    }
}

/// The JSON of a type's zero value.
pub(super) fn value(ty: &Type, table: &Table) -> Value {
    match ty {
        Type::Struct(id) => {
            // Values nest finitely in Go, so this ends.
            let mut object = Map::new();
            fill(&mut object, table.types.get(*id), table);
            Value::Object(object)
        }
        Type::List(_) | Type::Map(_) => Value::Null,
        Type::Scalar(scalar) => match scalar {
            Scalar::String => json!(""),
            Scalar::Bool => json!(false),
            Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::IntOrString => json!(0),
            Scalar::Quantity => json!("0"),
            Scalar::Duration => json!("0s"),
            Scalar::Bytes
            | Scalar::Time
            | Scalar::MicroTime
            | Scalar::RawExtension
            | Scalar::FieldsV1
            | Scalar::Json => Value::Null,
        },
    }
}
