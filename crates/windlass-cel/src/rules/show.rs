//! Values in the words of field errors.

use serde_json::{Number, Value};
use windlass_schema::field::{quote, show as plain};
use windlass_schema::structural::{Kind, Rule, Structural};

/// How an error shows a value that failed a rule.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Number(number) => float(number).unwrap_or_else(|| number.to_string()),
        Value::Array(_) | Value::Object(_) => escape_html(&plain(value)),
        other => plain(other),
    }
}

/// How an error shows the type of a schema, which it does when a rule could not be evaluated.
pub(super) fn kind(schema: &Structural) -> String {
    quote(match schema.kind {
        Some(Kind::Object) => "object",
        Some(Kind::Array) => "array",
        Some(Kind::String) => "string",
        Some(Kind::Integer) => "integer",
        Some(Kind::Number) => "number",
        Some(Kind::Boolean) => "boolean",
        None => "",
    })
}

/// How an error shows a rule of a definition.
pub(super) fn rule(rule: &Rule) -> String {
    let optional = match rule.optional_old_self {
        Some(value) => value.to_string(),
        None => "null".to_owned(),
    };
    let reason = if rule.reason.is_empty() { "null".to_owned() } else { json(&rule.reason) };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        json(&rule.rule),
        json(&rule.message),
        json(&rule.message_expression),
        json(&rule.field_path),
    )
}

/// A string as JSON that is safe inside HTML.
fn json(text: &str) -> String {
    escape_html(&Value::String(text.to_owned()).to_string())
}

fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// A float as Go prints it: exponents below 1e-4 and from 1e21 on.
fn float(number: &Number) -> Option<String> {
    if !number.is_f64() {
        return None;
    }
    let value = number.as_f64()?;
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e21).contains(&magnitude) {
        return Some(value.to_string());
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e')?;
    Some(match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_are_printed_as_go_does() {
        assert_eq!(value(&json!(1.5)), "1.5");
        assert_eq!(value(&json!(2.0)), "2");
        assert_eq!(value(&json!(1e21)), "1e+21");
        assert_eq!(value(&json!(0.00001)), "1e-05");
        assert_eq!(value(&json!(12)), "12");
    }
}
