//! Syntax of path elements as keys of FieldsV1: `f:name`, `k:{"name":"x"}`, `v:"x"`, `i:0`.

use std::fmt::Write;

use serde::Deserializer;
use serde_json::Value;

use super::reading::{Item, KeyVisitor, read_item};
use super::{ItemValue, Name, PathElement};

/// Reason why a key of FieldsV1 is not a path element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// Too short to identify the kind of element.
    #[error("key must be 2 characters long:")]
    Short,
    /// No colon after the first letter.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// A kind of element that this version does not support; such keys are skipped.
    #[error("unknown path element type")]
    Unknown,
    /// The index is not a number.
    #[error("strconv.Atoi: parsing {}: invalid syntax", windlass_schema::field::quote(.0))]
    Index(String),
    /// The value or key is not valid JSON.
    #[error("{0}")]
    Json(String),
}

impl PathElement {
    /// Parses a key of FieldsV1. Like kube-apiserver, ignores anything that follows the JSON of `v:` and `k:`.
    pub fn parse(text: &str) -> Result<Self, ElementError> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 {
            return Err(ElementError::Short);
        }
        if bytes[1] != b':' {
            return Err(ElementError::NoColon(text.to_owned()));
        }
        let rest = text.get(2..).ok_or(ElementError::Unknown)?;
        match bytes[0] {
            b'f' => Ok(Self::Field(Name::new(rest))),
            b'v' => parse_value(rest).map(Self::Value),
            b'k' => parse_key(rest),
            b'i' => rest.parse().map(Self::Index).map_err(|_| ElementError::Index(rest.to_owned())),
            _ => Err(ElementError::Unknown),
        }
    }

    /// Appends the element as a key of FieldsV1.
    pub fn write_key(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                out.push_str(name.as_str());
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (position, (name, value)) in fields.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    write_string(out, name.as_str());
                    out.push(':');
                    write_item(out, value);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                write_item(out, value);
            }
            Self::Index(index) => {
                let _ = write!(out, "i:{index}");
            }
        }
    }

    /// Returns the element as a key of FieldsV1.
    pub fn to_key(&self) -> String {
        let mut out = String::with_capacity(match self {
            Self::Field(name) => name.as_bytes().len() + 2,
            _ => 32,
        });
        self.write_key(&mut out);
        out
    }
}

/// Appends a JSON string as kube-apiserver writes keys: with only the necessary escapes.
pub(crate) fn write_string(out: &mut String, text: &str) {
    write_escaped(out, text, |_| false);
}

fn write_escaped(out: &mut String, text: &str, also: impl Fn(char) -> bool) {
    out.push('"');
    if text.bytes().all(|byte| byte > 31 && byte < 128 && byte != b'"' && byte != b'\\' && !also(char::from(byte))) {
        out.push_str(text);
    } else {
        for c in text.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if (c as u32) < 32 || also(c) => {
                    let _ = write!(out, "\\u{:04x}", c as u32);
                }
                c => out.push(c),
            }
        }
    }
    out.push('"');
}

fn write_item(out: &mut String, value: &ItemValue) {
    match value {
        ItemValue::Int(int) => {
            let _ = write!(out, "{int}");
        }
        ItemValue::Float(float) => write_float(out, *float),
        ItemValue::String(text) => write_text(out, text.as_str()),
        ItemValue::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        ItemValue::Other(value) => write_value(out, value),
    }
}

/// Values, unlike keys, are escaped for HTML.
fn write_text(out: &mut String, text: &str) {
    write_escaped(out, text, |c| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'));
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (position, (key, item)) in map.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_text(out, key);
                out.push(':');
                write_value(out, item);
            }
            out.push('}');
        }
        scalar => write_item(out, &read_item(scalar)),
    }
}

/// Writes the shortest digits, with an exponent below 1e-6 and from 1e21 on.
fn write_float(out: &mut String, float: f64) {
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        let _ = write!(out, "{digits}e{sign}{exponent:0>2}");
    } else {
        let _ = write!(out, "{float}");
    }
}

fn parse_value(text: &str) -> Result<ItemValue, ElementError> {
    let mut items = serde_json::Deserializer::from_str(text).into_iter::<Item>();
    match items.next() {
        Some(item) => item.map(|item| item.0).map_err(|error| ElementError::Json(error.to_string())),
        None => Err(ElementError::Json("unexpected end of JSON input".to_owned())),
    }
}

fn parse_key(text: &str) -> Result<PathElement, ElementError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let mut fields = reader.deserialize_any(KeyVisitor).map_err(|error| ElementError::Json(error.to_string()))?;
    fields.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(PathElement::Key(fields.into()))
}
