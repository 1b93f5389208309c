//! Inference of missing types.

use serde_json::{Map, Value};

/// Returns the type that the other keywords imply; `None` if they suit more than one.
pub(super) fn infer(schema: &Map<String, Value>) -> Option<&'static str> {
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| schema.get(*keyword).is_some_and(|it| !it.is_null()));
    if has(&["properties", "additionalProperties", "required", "minProperties", "maxProperties"]) {
        return Some("object");
    }
    if has(&["items", "minItems", "maxItems", "x-kubernetes-list-type"]) {
        return Some("array");
    }
    if let Some(kind) = schema.get("format").and_then(Value::as_str).and_then(of_format) {
        return Some(kind);
    }
    if has(&["pattern", "minLength", "maxLength"]) {
        return Some("string");
    }
    let examples = schema.get("enum").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let examples = examples.iter().chain(schema.get("default")).filter(|value| !value.is_null());
    let of_values = examples.map(of_value).reduce(|one, other| match (one, other) {
        (Some(one), Some(other)) if one == other => Some(one),
        (Some("integer" | "number"), Some("integer" | "number")) => Some("number"),
        _ => None,
    });
    match of_values {
        Some(kind) => kind,
        // Integers are numbers too.
        None => has(&["minimum", "maximum", "multipleOf"]).then_some("number"),
    }
}

fn of_format(format: &str) -> Option<&'static str> {
    Some(match format {
        "int32" | "int64" => "integer",
        "float" | "double" => "number",
        "byte" | "date" | "date-time" | "password" | "duration" | "email" | "hostname" | "ipv4" | "ipv6" | "cidr"
        | "uri" | "uuid" | "mac" => "string",
        _ => return None,
    })
}

fn of_value(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null => return None,
    })
}
