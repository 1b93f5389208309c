//! Converts JSON to values, with or without a structural schema.

use serde_json::Value as Json;
use windlass_schema::structural::{Kind, Structural};

use super::{EvalError, List, Map, Opaque, Outcome, Text, Timestamp, Value};

impl<'a> Value<'a> {
    /// Returns part of an object, seen through its schema.
    ///
    /// # Errors
    /// Returns an error if it does not match the schema.
    pub fn typed(json: &'a Json, schema: &'a Structural) -> Outcome<'a> {
        Self::with_schema(json, schema, schema.embedded_resource)
    }

    /// Returns a whole object, which has `apiVersion`, `kind` and `metadata` regardless of its schema.
    ///
    /// # Errors
    /// Returns an error if it does not match the schema.
    pub fn resource(json: &'a Json, schema: &'a Structural) -> Outcome<'a> {
        Self::with_schema(json, schema, true)
    }

    fn with_schema(json: &'a Json, schema: &'a Structural, resource: bool) -> Outcome<'a> {
        if json.is_null() {
            return if schema.nullable {
                Ok(Value::Null)
            } else {
                Err(EvalError::new("invalid data, got null for schema with nullable=false"))
            };
        }
        if schema.int_or_string {
            return match json {
                Json::String(text) => Ok(Value::String(Text::Borrowed(text))),
                Json::Number(number) if number.is_i64() => Ok(Value::Int(number.as_i64().unwrap_or_default())),
                _ => Err(EvalError::new("invalid data, expected XIntOrString value to be either a string or integer")),
            };
        }
        match schema.kind {
            Some(Kind::Object) => match json {
                Json::Object(fields) => Ok(Value::Map(Map::Json { fields, schema: Some(schema), resource })),
                _ => Err(EvalError::new("invalid data, expected a map for the provided schema with type=object")),
            },
            Some(Kind::Array) => match json {
                Json::Array(items) if schema.items.is_some() => Ok(Value::List(List::json(items, Some(schema)))),
                Json::Array(_) => Err(EvalError::new("invalid array type, expected Items with a non-empty Schema")),
                _ => Err(EvalError::new("invalid data, expected an array for the provided schema with type=array")),
            },
            Some(Kind::String) => match json {
                Json::String(text) => match schema.validation.format.as_deref() {
                    None => Ok(Value::String(Text::Borrowed(text))),
                    Some(format) => formatted(text, format),
                },
                _ => Err(unexpected("string", json)),
            },
            Some(Kind::Number) => match json {
                Json::Number(number) => Ok(Value::Double(number.as_f64().unwrap_or_default())),
                _ => Err(unexpected("float", json)),
            },
            Some(Kind::Integer) => match json.as_i64() {
                Some(value) => Ok(Value::Int(value)),
                None => Err(unexpected("int", json)),
            },
            Some(Kind::Boolean) => match json {
                Json::Bool(value) => Ok(Value::Bool(*value)),
                _ => Err(unexpected("bool", json)),
            },
            None if schema.preserve_unknown_fields => Ok(Value::Preserved(json)),
            None => Err(EvalError::new(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with \
                 x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got ",
            )),
        }
    }

    /// Returns JSON without a known type.
    pub fn untyped(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Value::Int(value),
                None => Value::Double(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Value::String(Text::Borrowed(text)),
            Json::Array(items) => Value::List(List::json(items, None)),
            Json::Object(fields) => Value::Map(Map::Json { fields, schema: None, resource: false }),
        }
    }

    /// Returns the value without its schema, as after a selection through an optional.
    pub(crate) fn without_schema(&self) -> Value<'a> {
        match self {
            Value::Map(Map::Json { fields, .. }) => Value::Map(Map::Json { fields, schema: None, resource: false }),
            Value::List(list) => Value::List(list.untyped()),
            Value::Preserved(json) => Value::untyped(json),
            Value::Optional(Some(value)) => value.without_schema(),
            Value::Optional(None) => Value::Null,
            Value::Type(name) => Value::string(name.clone()),
            Value::Opaque(value) if !matches!(**value, Opaque::Format(_)) => Value::Lost(value.clone()),
            other => other.clone(),
        }
    }
}

fn unexpected(wanted: &str, json: &Json) -> EvalError {
    EvalError::new(format!("invalid data, expected {wanted}, got {}", go_type(json)))
}

fn go_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

/// Converts a string whose format denotes another type.
fn formatted<'a>(text: &'a str, format: &str) -> Outcome<'a> {
    match format {
        "duration" => match windlass_schema::time::parse_loose_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => Err(EvalError::new(format!("Invalid duration {text}: unable to parse {text} as duration"))),
        },
        "date" => match Timestamp::parse_date(text) {
            Some(date) => Ok(Value::Timestamp(date)),
            None => Err(EvalError::new(format!(
                "Invalid date formatted string {text}: parsing time {text:?} as \"2006-01-02\": cannot parse {text:?} as \"2006\""
            ))),
        },
        "date-time" => match Timestamp::parse_date_time(text) {
            Ok(time) => Ok(Value::Timestamp(time)),
            Err(reason) => Err(EvalError::new(format!("Invalid date-time formatted string {text}: {reason}"))),
        },
        "byte" => match url_base64(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(at) => Err(EvalError::new(format!(
                "Invalid byte formatted string {text}: illegal base64 data at input byte {at}"
            ))),
        },
        _ => Ok(Value::String(Text::Borrowed(text))),
    }
}

/// Parses padded base64 with the URL-safe alphabet, skipping line breaks; the error is the offset of the failure.
fn url_base64(text: &str) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut count, mut padding) = (0u32, 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        let digit = match byte {
            b'\r' | b'\n' => continue,
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            b'=' if count >= 2 => {
                padding += 1;
                0
            }
            _ => return Err(at),
        };
        if (padding > 0 && byte != b'=') || padding > 2 {
            return Err(at);
        }
        group = group << 6 | u32::from(digit);
        count += 1;
        if count == 4 {
            out.extend_from_slice(&group.to_be_bytes()[1..4 - padding]);
            (group, count) = (0, 0);
        }
    }
    if count == 0 { Ok(out) } else { Err(text.len() - count) }
}
