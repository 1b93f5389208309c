//! Formats text and JSON values like Go, for kube-apiserver messages that contain them, and parses booleans like it.

use std::fmt::Write;

use serde_json::Value;

use crate::json;

mod quote;

pub use quote::{first_unprintable, is_printable, quote, quote_bytes};

/// Formats a value like Go's `%v`: `map[a:1 b:[x y]]`, strings bare, null as `<nil>`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(&mut out, value);
    out
}

/// Formats a list like Go's `%v`: `[a b]`.
pub fn plain_list(items: &[Value]) -> String {
    let mut out = String::new();
    write_list(&mut out, items);
    out
}

/// Formats a value like Go's `%s`: like [`plain`] for strings, `%!s(int64=1)` for other values.
pub fn verb_s(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(nested_verb_s).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<_> = map.iter().map(|(key, item)| format!("{key}:{}", nested_verb_s(item))).collect();
            format!("map[{}]", entries.join(" "))
        }
        scalar => format!("%!s({}={})", type_name(scalar), plain(scalar)),
    }
}

/// Formats a value like Go's `%#v`: `map[string]interface {}{"a":1}`.
pub fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let entries: Vec<_> = map.iter().map(|(key, item)| format!("{}:{}", quote(key), syntax(item))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        scalar => plain(scalar),
    }
}

/// Inside a list or map, a null is written without the verb.
fn nested_verb_s(value: &Value) -> String {
    if value.is_null() { "<nil>".to_owned() } else { verb_s(value) }
}

/// Parses a boolean like Go's `strconv.ParseBool`.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Returns the name of a value's JSON type as in Go's `cannot unmarshal X into ...`.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the Go type of a JSON value in an unstructured object, as `%s` prints a `reflect.Type`.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => {
                let _ = write!(out, "{integer}");
            }
            None => out.push_str(&float(number.as_f64().unwrap_or_default())),
        },
        Value::String(text) => out.push_str(text),
        Value::Array(items) => write_list(out, items),
        Value::Object(map) => {
            out.push_str("map[");
            for (position, (key, item)) in map.iter().enumerate() {
                if position > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_plain(out, item);
            }
            out.push(']');
        }
    }
}

fn write_list(out: &mut String, items: &[Value]) {
    out.push('[');
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push(' ');
        }
        write_plain(out, item);
    }
    out.push(']');
}

/// Formats a float like Go's `%v`: the shortest digits, with an exponent of at least two digits below 0.0001 and from
/// one million on.
pub fn float(value: f64) -> String {
    if value.is_infinite() {
        return if value < 0.0 { "-Inf" } else { "+Inf" }.to_owned();
    }
    let text = format!("{value:e}");
    match text.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?))) {
        Some((digits, exponent)) if exponent < -4 => format!("{digits}e-{:02}", -exponent),
        Some((digits, exponent)) if exponent > 5 => format!("{digits}e+{exponent:02}"),
        _ => value.to_string(),
    }
}

/// Serializes a value like Go's `json.Marshal`, which escapes HTML characters.
pub fn marshal(value: &Value) -> String {
    let text = String::from_utf8_lossy(&json::encode(value)).into_owned();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_go_prints_them() {
        let value = json!({"b": [1, "x y", null, true], "a": {"n": 1.5, "big": 1e21, "small": 0.00001}});
        assert_eq!(plain(&value), "map[a:map[big:1e+21 n:1.5 small:1e-05] b:[1 x y <nil> true]]");
    }

    #[test]
    fn non_strings_show_their_type_under_the_string_verb() {
        assert_eq!(verb_s(&json!("x")), "x");
        assert_eq!(verb_s(&json!(1)), "%!s(int64=1)");
        assert_eq!(verb_s(&json!(null)), "%!s(<nil>)");
        assert_eq!(verb_s(&json!({"a": [true, null]})), "map[a:[%!s(bool=true) <nil>]]");
    }

    #[test]
    fn floats_print_as_go_prints_them() {
        for (value, expected) in [
            (2.0, "2"),
            (1.5, "1.5"),
            (123_456.0, "123456"),
            (1e6, "1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (-1e21, "-1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn json_is_escaped_for_html() {
        assert_eq!(marshal(&json!({"<a>": "&\u{2028}é", "f": 2.0})), r#"{"\u003ca\u003e":"\u0026\u2028é","f":2}"#);
    }
}
