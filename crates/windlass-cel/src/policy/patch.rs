//! Results of mutations.

use serde_json::{Map, Value as Json};

use crate::value::Value;

/// Returns the partial object that an expression constructed.
///
/// # Errors
/// Returns kube-apiserver's error if nested types do not match their fields, or a value has no JSON form.
pub fn apply_configuration(value: &Value<'_>) -> Result<Json, String> {
    check_types(value)?;
    value.to_json().map_err(|error| format!("invalid return type: {error}"))
}

/// Returns the operations that an expression constructed.
///
/// # Errors
/// Returns kube-apiserver's error if nested types do not match their fields, or a value has no JSON form.
pub fn json_patch(value: &Value<'_>) -> Result<Vec<Map<String, Json>>, String> {
    let Value::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut operations = Vec::with_capacity(list.len());
    for item in list.iter() {
        let Value::Struct(operation) = item.map_err(|error| error.to_string())? else {
            return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_owned());
        };
        let text = |field: &str| operation.fields.get(field).and_then(Value::as_str).unwrap_or_default();
        let mut fields = Map::new();
        fields.insert("op".to_owned(), text("op").into());
        fields.insert("path".to_owned(), text("path").into());
        if !text("from").is_empty() {
            fields.insert("from".to_owned(), text("from").into());
        }
        if let Some(value) = operation.fields.get("value") {
            check_types(value)?;
            let json = value.to_json().map_err(|error| {
                format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
            })?;
            fields.insert("value".to_owned(), json);
        }
        operations.push(fields);
    }
    Ok(operations)
}

fn check_types(value: &Value<'_>) -> Result<(), String> {
    let Value::Struct(value) = value else { return Ok(()) };
    let errors = value.type_errors();
    if errors.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", errors.join("\n"))) }
}
