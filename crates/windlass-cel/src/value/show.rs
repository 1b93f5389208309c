//! Formats values as CEL literals and for messages.

use std::fmt::Write;

use windlass_schema::go_format::{self, quote};

use super::{Map, Opaque, Value, time};

impl Value<'_> {
    /// Formats the value as an expression that evaluates to it.
    pub fn to_literal(&self) -> String {
        let mut out = String::new();
        self.write_literal(&mut out);
        out
    }

    fn write_literal(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Int(value) => drop(write!(out, "{value}")),
            Value::Uint(value) => drop(write!(out, "{value}u")),
            Value::Double(value) if value.is_nan() => out.push_str("double(\"NaN\")"),
            Value::Double(value) if value.is_infinite() => {
                out.push_str(if *value < 0.0 { "double(\"-Infinity\")" } else { "double(\"Infinity\")" });
            }
            Value::Double(value) => {
                let text = format!("{value}");
                out.push_str(&text);
                if !text.contains('.') {
                    out.push_str(".0");
                }
            }
            Value::String(text) => out.push_str(&quote(text)),
            Value::Bytes(bytes) => {
                out.push_str("b\"");
                for byte in bytes.iter() {
                    let _ = write!(out, "\\{byte:03o}");
                }
                out.push('"');
            }
            Value::Duration(nanos) => drop(write!(out, "duration(\"{}s\")", time::duration_seconds(*nanos))),
            Value::Timestamp(time) => drop(write!(out, "timestamp(\"{}\")", time.utc().to_rfc3339_nano())),
            Value::List(list) => {
                out.push('[');
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    match item {
                        Ok(item) => item.write_literal(out),
                        Err(error) => drop(write!(out, "{error}")),
                    }
                }
                out.push(']');
            }
            Value::Map(map) => write_map(map, out),
            Value::Optional(None) => out.push_str("optional.none()"),
            Value::Optional(Some(value)) => {
                out.push_str("optional.of(");
                value.write_literal(out);
                out.push(')');
            }
            Value::Type(name) => out.push_str(name),
            Value::Struct(value) => {
                out.push_str(&value.name);
                out.push('{');
                for (index, (field, value)) in value.fields.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    let _ = write!(out, "{field}: ");
                    value.write_literal(out);
                }
                out.push('}');
            }
            Value::Opaque(_) | Value::Lost(_) | Value::Preserved(_) => out.push_str(&self.display()),
        }
    }

    /// Returns the type name used in some messages.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Value::Null => "types.Null",
            Value::Bool(_) => "types.Bool",
            Value::Int(_) => "types.Int",
            Value::Uint(_) => "types.Uint",
            Value::Double(_) => "types.Double",
            Value::String(_) => "types.String",
            Value::Bytes(_) => "types.Bytes",
            Value::Duration(_) => "types.Duration",
            Value::Timestamp(_) => "types.Timestamp",
            Value::List(list) if list.is_typed() => "*common.unstructuredList",
            Value::List(_) => "*types.baseList",
            Value::Map(map) if map.is_typed() => "*common.unstructuredMap",
            Value::Map(_) => "*types.baseMap",
            Value::Optional(_) => "*types.Optional",
            Value::Type(_) => "*types.Type",
            Value::Lost(_) => "*types.Err",
            Value::Opaque(value) => match &**value {
                Opaque::Quantity { computed: false, .. } => "cel.Quantity",
                Opaque::Quantity { computed: true, .. } => "*cel.Quantity",
                Opaque::Ip(_) => "cel.IP",
                Opaque::Cidr(_) => "cel.CIDR",
                Opaque::Url(_) => "cel.URL",
                Opaque::Semver(_) => "cel.Semver",
                Opaque::Format(_) => "cel.Format",
                Opaque::Authorization(value) => value.go_type(),
            },
            Value::Struct(value) if value.is_patch() => "*mutation.JSONPatchVal",
            Value::Struct(_) => "*dynamic.ObjectVal",
            Value::Preserved(_) => "*common.unknownPreserved",
        }
    }

    /// Formats the value for messages.
    pub fn display(&self) -> String {
        match self {
            Value::Null => "0".to_owned(),
            Value::String(text) => text.to_string(),
            Value::Uint(value) => value.to_string(),
            Value::Double(value) => go_format::float(*value),
            Value::Bytes(bytes) => {
                let bytes: Vec<_> = bytes.iter().map(u8::to_string).collect();
                format!("[{}]", bytes.join(" "))
            }
            Value::Duration(nanos) => windlass_schema::time::format_duration(*nanos),
            Value::Timestamp(time) => time.to_rfc3339_nano(),
            Value::List(list) => {
                let items: Vec<_> = list
                    .iter()
                    .map(|item| item.map_or_else(|error| error.to_string(), |item| item.display()))
                    .collect();
                format!("[{}]", items.join(", "))
            }
            Value::Optional(Some(value)) => format!("optional({})", value.display()),
            Value::Opaque(value) => value.to_string(),
            Value::Lost(value) => value.lost().to_string(),
            Value::Preserved(json) => json.to_string(),
            other => other.to_literal(),
        }
    }
}

fn write_map(map: &Map<'_>, out: &mut String) {
    let mut entries: Vec<_> = map
        .keys()
        .iter()
        .map(|key| {
            let value = match map.find(key) {
                Ok(Some(value)) => value.to_literal(),
                Ok(None) => String::new(),
                Err(error) => error.to_string(),
            };
            (key.to_literal(), value)
        })
        .collect();
    entries.sort();
    out.push('{');
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        let _ = write!(out, "{key}: {value}");
    }
    out.push('}');
}
