//! Zero values: the values of unset Go fields, and whether the encoder writes them.

use serde_json::{Map, Value};

use super::{Decoder, Storage};
use crate::types::{Field, Scalar, Type, TypeTable};

/// Returns what the encoder writes for an unset value.
pub fn zero(table: &TypeTable, ty: &Type) -> Value {
    match ty {
        Type::List(_) | Type::Map(_) => Value::Null,
        // Structs contain each other only through pointers, lists and maps, so this terminates.
        Type::Struct(id) => {
            let mut map = Map::new();
            for field in table.get(*id).fields.iter().filter(|field| !field.omit_empty) {
                let zero = if field.pointer { Value::Null } else { zero(table, &field.ty) };
                map.insert(field.name.to_string(), zero);
            }
            Value::Object(map)
        }
        Type::Scalar(scalar) => match scalar {
            Scalar::String => Value::from(""),
            Scalar::Bool => Value::from(false),
            Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::IntOrString => Value::from(0),
            Scalar::Quantity => Value::from("0"),
            Scalar::Duration => Value::from("0s"),
            Scalar::Bytes
            | Scalar::Time
            | Scalar::MicroTime
            | Scalar::RawExtension
            | Scalar::FieldsV1
            | Scalar::Json => Value::Null,
        },
    }
}

impl Decoder<'_> {
    /// Returns what the encoder writes for an unset value.
    pub(super) fn zero(&self, ty: &Type) -> Value {
        zero(self.table, ty)
    }

    /// Returns whether the encoder writes a decoded field; an empty list that it writes is converted according to the
    /// storage format.
    pub(super) fn keeps(&self, value: &mut Value, field: &Field) -> bool {
        if field.pointer {
            return !(value.is_null() && field.omit_empty);
        }
        if field.omit_empty {
            return !self.is_zero(value, &field.ty);
        }
        let empty = match &*value {
            Value::Array(items) => items.is_empty() && matches!(field.ty, Type::List(_)),
            Value::Object(map) => map.is_empty() && matches!(field.ty, Type::Map(_)),
            _ => false,
        };
        if empty && self.storage == Storage::Protobuf {
            *value = Value::Null;
        }
        true
    }

    fn is_zero(&self, value: &Value, ty: &Type) -> bool {
        match (value, ty) {
            (Value::Null, _) => true,
            (Value::String(text), Type::Scalar(Scalar::String | Scalar::Bytes)) => text.is_empty(),
            (Value::String(text), Type::Scalar(Scalar::Duration)) => text == "0s",
            (Value::Bool(value), _) => !value,
            (
                Value::Number(number),
                Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::IntOrString),
            ) => number.as_f64() == Some(0.0),
            (Value::Array(items), Type::List(_)) => items.is_empty(),
            (Value::Object(map), Type::Map(_)) => map.is_empty(),
            (Value::Object(_), Type::Struct(_)) => *value == self.zero(ty),
            _ => false,
        }
    }
}
