//! JSON values as Go prints them: several errors of the real server carry a map in Go's `%v` form.

use std::fmt::Write;

use serde_json::{Number, Value};

/// A value in Go's `%v` form: `map[a:1 b:[x y]]`, strings bare, null as `<nil>`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(&mut out, value);
    out
}

/// Lists in Go's `%v` form: `[a b]`.
pub(crate) fn plain_list(items: &[Value]) -> String {
    let mut out = String::new();
    write_list(&mut out, items);
    out
}

/// A value in Go's `%s` form: as [`plain`] for strings, `%!s(int64=1)` for what is no string.
pub(crate) fn verb_s(value: &Value) -> String {
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

/// A value in Go's `%#v` form: `map[string]interface {}{"a":1}`.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => windlass_schema::field::quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let quote = windlass_schema::field::quote;
            let entries: Vec<_> = map.iter().map(|(key, item)| format!("{}:{}", quote(key), syntax(item))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        scalar => plain(scalar),
    }
}

/// Inside a list or map a null is spelt without the verb.
fn nested_verb_s(value: &Value) -> String {
    if value.is_null() { "<nil>".to_owned() } else { verb_s(value) }
}

/// The Go type that a JSON value has in an unstructured object, as `%s` prints a `reflect.Type`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if is_int64(number) => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn is_int64(number: &Number) -> bool {
    number.is_i64()
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

/// A float as Go's `%v` prints it: the shortest digits, with an exponent of at least two digits outside 1e-4..1e21.
pub(crate) fn float(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{number}")
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
    fn what_is_no_string_shows_its_type_under_the_string_verb() {
        assert_eq!(verb_s(&json!("x")), "x");
        assert_eq!(verb_s(&json!(1)), "%!s(int64=1)");
        assert_eq!(verb_s(&json!(null)), "%!s(<nil>)");
        assert_eq!(verb_s(&json!({"a": [true, null]})), "map[a:[%!s(bool=true) <nil>]]");
    }
}
