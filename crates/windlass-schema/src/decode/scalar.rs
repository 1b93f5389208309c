//! Scalars: the JSON types, and the Kubernetes types with their own representation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Decoder;
use super::context::Context;
use crate::go_format::json_type;
use crate::json::{Node, format_float};
use crate::quantity::Quantity;
use crate::time;
use crate::types::Scalar;

/// Returns the Go name of a scalar's plain type.
pub(super) fn go_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String => "string",
        Scalar::Bool => "bool",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Float64 => "float64",
        Scalar::Bytes => "[]uint8",
        Scalar::Quantity => "resource.Quantity",
        Scalar::IntOrString => "intstr.IntOrString",
        Scalar::Time => "v1.Time",
        Scalar::MicroTime => "v1.MicroTime",
        Scalar::Duration => "v1.Duration",
        Scalar::RawExtension => "runtime.RawExtension",
        Scalar::FieldsV1 => "v1.FieldsV1",
        Scalar::Json => "v1.JSON",
    }
}

impl Decoder<'_> {
    pub(super) fn scalar(
        &mut self,
        value: &mut Value,
        scalar: Scalar,
        go_type: &str,
        context: &Context<'_>,
        node: Option<&Node>,
    ) {
        if matches!(scalar, Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString)
            && node.is_none()
            && let Some(whole) = whole_float(value)
        {
            // Go writes such a number without a fraction; whether the text had one must be looked up there.
            self.literal_missing = true;
            *value = whole.into();
        }
        match (scalar, &*value) {
            (Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json, _)
            | (Scalar::String, Value::String(_))
            | (Scalar::Bool, Value::Bool(_))
            | (Scalar::Float64, Value::Number(_))
            | (Scalar::IntOrString, Value::String(_))
            | (Scalar::Bytes | Scalar::Time | Scalar::MicroTime, Value::Null) => {}
            (Scalar::Duration, Value::Null) => self.fatal = time::parse_duration("").err(),
            (_, Value::Null) => *value = self.zero(&crate::types::Type::Scalar(scalar)),
            (Scalar::Int32, Value::Number(number)) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {}
            (Scalar::Int64, Value::Number(number)) if number.as_i64().is_some() => {}
            (Scalar::Int32 | Scalar::Int64, Value::Number(_)) => {
                let what = format!("number {}", self.literal(value, node));
                self.mismatch(&what, go_type, context);
            }
            (Scalar::IntOrString, Value::Number(number)) => {
                if number.as_i64().is_none_or(|n| i32::try_from(n).is_err()) {
                    let what = format!("number {}", self.literal(value, node));
                    self.fatal = Some(context.type_error(&what, "int32"));
                }
            }
            (Scalar::IntOrString, other) => self.fatal = Some(context.type_error(json_type(other), "int32")),
            (Scalar::Bytes, Value::String(text)) => match check_base64(text) {
                Ok(None) => {}
                Ok(Some(canonical)) => *value = Value::String(canonical),
                Err(at) => {
                    self.saved.get_or_insert_with(|| format!("illegal base64 data at input byte {at}"));
                }
            },
            (Scalar::Bytes, Value::Array(items)) => {
                let bytes: Vec<_> = items.iter().map(|item| self.byte(item, context)).collect();
                *value = Value::String(STANDARD.encode(bytes));
            }
            (Scalar::Quantity, _) => self.quantity(value, node),
            (Scalar::Time | Scalar::MicroTime | Scalar::Duration, Value::String(_)) => self.moment(value, scalar),
            (Scalar::Time | Scalar::MicroTime | Scalar::Duration, other) => {
                self.fatal = Some(context.type_error(json_type(other), "string"));
            }
            (
                Scalar::String | Scalar::Bool | Scalar::Float64 | Scalar::Int32 | Scalar::Int64 | Scalar::Bytes,
                other,
            ) => {
                self.mismatch(json_type(other), go_type, context);
            }
        }
    }

    /// Returns a number as it was written, or as Go would write it.
    fn literal(&mut self, value: &Value, node: Option<&Node>) -> String {
        match (node, value) {
            (Some(Node::Number(literal)), _) => literal.to_string(),
            (_, Value::Number(number)) if number.is_f64() => {
                self.literal_missing = true;
                format_float(number.as_f64().unwrap_or_default())
            }
            (_, other) => other.to_string(),
        }
    }

    /// Decodes one byte of a list of numbers, which Go accepts for bytes.
    fn byte(&mut self, item: &Value, context: &Context<'_>) -> u8 {
        let number = item.as_i64().or_else(|| whole_float(item));
        let byte = number.and_then(|n| u8::try_from(n).ok());
        if byte.is_none() && !item.is_null() {
            let what = if item.is_number() { format!("number {item}") } else { json_type(item).to_owned() };
            self.mismatch(&what, "uint8", context);
        }
        byte.unwrap_or_default()
    }

    fn quantity(&mut self, value: &mut Value, node: Option<&Node>) {
        let parsed = match &*value {
            Value::String(text) => {
                let trimmed = text.trim();
                match Quantity::parse(trimmed) {
                    Ok(quantity) if trimmed.len() == text.len() && quantity.is_text() => return,
                    other => other,
                }
            }
            other => Quantity::parse(&self.literal(other, node)),
        };
        match parsed {
            Ok(quantity) => *value = Value::String(quantity.to_string()),
            Err(error) => self.fatal = Some(error.to_string()),
        }
    }

    fn moment(&mut self, value: &mut Value, scalar: Scalar) {
        let Value::String(text) = &*value else { return };
        let formatted = match scalar {
            Scalar::Time => time::parse_rfc3339(text).map(|t| (!t.is_zero()).then(|| t.to_rfc3339())),
            Scalar::MicroTime => time::parse_rfc3339_micro(text).map(|t| (!t.is_zero()).then(|| t.to_rfc3339_micro())),
            _ => time::parse_duration(text).map(|nanos| Some(time::format_duration(nanos))),
        };
        match formatted {
            Ok(Some(formatted)) if formatted == *text => {}
            Ok(Some(formatted)) => *value = Value::String(formatted),
            Ok(None) => *value = Value::Null,
            Err(error) => self.fatal = Some(error),
        }
    }
}

/// Checks base64 like Go's decoder, which skips newlines and ignores trailing bits. Returns the canonical text if it
/// differs, or the offset at which Go fails.
fn check_base64(text: &str) -> Result<Option<String>, usize> {
    let bytes = text.as_bytes();
    let mut clean = Vec::new();
    let is_plain = !bytes.iter().any(|b| matches!(b, b'\r' | b'\n'));
    let mut at = 0;
    let mut quantum = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {
                quantum = (quantum + 1) % 4;
                if !is_plain {
                    clean.push(*byte);
                }
            }
            b'\r' | b'\n' => {}
            b'=' if quantum >= 2 => {
                let newlines = |from: usize| bytes[from..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
                at += newlines(at);
                if quantum == 2 {
                    match bytes.get(at) {
                        None => return Err(bytes.len()),
                        Some(b'=') => at += 1,
                        Some(_) => return Err(at - 1),
                    }
                    at += newlines(at);
                }
                if at < bytes.len() {
                    return Err(at);
                }
                let last = bytes.iter().rfind(|b| !matches!(b, b'=' | b'\r' | b'\n')).copied().unwrap_or(b'A');
                let spare = if quantum == 2 { 0x0f } else { 0x03 };
                if is_plain && value_of(last) & spare == 0 {
                    return Ok(None);
                }
                if is_plain {
                    clean.extend(bytes.iter().filter(|b| **b != b'='));
                }
                if let Some(last) = clean.last_mut() {
                    *last = ALPHABET[usize::from(value_of(*last) & !spare)];
                }
                let mut text = String::from_utf8(clean).unwrap_or_default();
                text.push_str(if quantum == 2 { "==" } else { "=" });
                return Ok(Some(text));
            }
            _ => return Err(at - 1),
        }
    }
    match quantum {
        0 if is_plain => Ok(None),
        0 => Ok(Some(String::from_utf8(clean).unwrap_or_default())),
        // Go reports the position at which the incomplete group of four would start without newlines.
        letters => Err(bytes.len() - letters),
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn value_of(byte: u8) -> u8 {
    ALPHABET.iter().position(|b| *b == byte).unwrap_or_default() as u8
}

/// Returns the integer value of a float without a fraction.
fn whole_float(value: &Value) -> Option<i64> {
    let float = value.as_f64().filter(|_| value.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9e18).then_some(float as i64)
}
