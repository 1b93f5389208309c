//! Copying a patched object to the fields of its type.
//!
//! kube-apiserver does not decode the outcome of a strategic merge patch, but copies its values one by one. It does so in
//! the order of the fields, with rules and messages of its own: integers are cut to the size of the field, and numbers
//! without a fraction become integers.

use serde_json::Value;

use super::{Context, Decoder, Storage, element_name};
use crate::types::{Scalar, StructId, Type, TypeTable};

/// Gives the values of an object the types of their fields, as far as these differ. The object must be decoded
/// afterwards.
///
/// # Errors
/// Returns the message for the first value of a wrong type: `unrecognized type: int32`.
pub fn restore(value: &mut Value, root: StructId, table: &TypeTable) -> Result<(), String> {
    restore_value(value, &Type::Struct(root), "", table)
}

fn restore_value(value: &mut Value, ty: &Type, go_type: &str, table: &TypeTable) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let go_type = go_type.trim_start_matches('*');
    match (ty, value) {
        (Type::Scalar(scalar), value) => restore_scalar(value, *scalar, go_type, table),
        (Type::Struct(id), Value::Object(map)) => {
            for field in &table.get(*id).fields {
                if let Some(value) = map.get_mut(&*field.name) {
                    restore_value(value, &field.ty, &field.go_type, table)?;
                }
            }
            Ok(())
        }
        (Type::Struct(_), other) => Err(format!("cannot restore struct from: {}", go_kind(other))),
        (Type::List(element), Value::Array(items)) => {
            let name = element_name(go_type, "[]", element, table);
            items.iter_mut().try_for_each(|item| restore_value(item, element, &name, table))
        }
        (Type::List(_), other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        (Type::Map(element), Value::Object(map)) => {
            let name = element_name(go_type, "map[string]", element, table);
            map.values_mut().try_for_each(|value| restore_value(value, element, &name, table))
        }
        (Type::Map(_), other) => Err(format!("cannot restore map from {}", go_kind(other))),
    }
}

fn restore_scalar(value: &mut Value, scalar: Scalar, go_type: &str, table: &TypeTable) -> Result<(), String> {
    use Scalar::{Bool, Bytes, Float64, Int32, Int64, String};
    let number = value.as_i64();
    match (scalar, &*value) {
        (String, Value::String(_)) | (Bool, Value::Bool(_)) | (Float64, Value::Number(_)) => Ok(()),
        (Int32 | Int64, Value::Number(given)) => match (number, given.as_f64()) {
            (Some(number), _) => {
                *value = if scalar == Int32 { (number as i32).into() } else { number.into() };
                Ok(())
            }
            (None, Some(float)) if float.fract() == 0.0 => {
                *value = if scalar == Int32 { (float as i64 as i32).into() } else { (float as i64).into() };
                Ok(())
            }
            _ => Err(format!("cannot convert float64 to {go_type}")),
        },
        // Go can convert integers to strings, though not in this way.
        (String, Value::Number(_)) if number.is_some() => Err(format!("cannot convert int64 to {go_type}")),
        (String, _) => Err("unrecognized type: string".to_owned()),
        (Bool, _) => Err("unrecognized type: bool".to_owned()),
        (Int32, _) => Err("unrecognized type: int32".to_owned()),
        (Int64, _) => Err("unrecognized type: int64".to_owned()),
        (Float64, _) => Err("unrecognized type: float64".to_owned()),
        (Bytes, Value::String(_)) => match decoded(value, scalar, go_type, table) {
            Err(why) => Err(format!("error decoding from json: {why}")),
            ok => ok,
        },
        (Bytes, Value::Array(items)) => {
            let wrong = items.iter().find(|item| !item.is_number() && !item.is_null());
            wrong.map_or(Ok(()), |_| Err("unrecognized type: uint8".to_owned()))
        }
        (Bytes, other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        // The others have decoders of their own.
        _ => decoded(value, scalar, go_type, table),
    }
}

/// Decodes a value on its own.
fn decoded(value: &mut Value, scalar: Scalar, go_type: &str, table: &TypeTable) -> Result<(), String> {
    let mut decoder = Decoder::new(table, Storage::default());
    decoder.scalar(value, scalar, go_type, &Context::Root, None);
    decoder.fatal.or(decoder.saved).map_or(Ok(()), Err)
}

/// Returns the kind of a value in Go.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(_) if value.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
