//! Values in the words of field errors.

use serde_json::Value;
use windlass_schema::go_format::{self, quote};
use windlass_schema::structural::{Kind, Rule, Structural};

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
    go_format::marshal(&Value::from(text))
}
