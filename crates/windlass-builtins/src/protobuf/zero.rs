//! Zero values, as Go's JSON encoder writes them for unset fields.

use serde_json::{Map, Value};
use windlass_schema::decode;
use windlass_schema::types::{Field, Struct};

use crate::resource::Table;

/// Adds the absent fields that Go writes even if they are zero.
pub(super) fn fill(object: &mut Map<String, Value>, structure: &Struct, table: &Table) {
    for field in &structure.fields {
        if !field.omit_empty && !object.contains_key(&*field.name) {
            let zero = if field.pointer { Value::Null } else { decode::zero(&table.types, &field.ty) };
            object.insert(field.name.to_string(), zero);
        }
    }
}

/// Returns whether Go omits this value of the field.
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
