//! Formats values for field errors.

use serde_json::Value;
use windlass_schema::go_format::{self, quote};
use windlass_schema::structural::{Kind, Rule, Structural};

/// Formats the type of a schema, for the error of a rule that could not be evaluated.
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

/// Formats a rule of a CustomResourceDefinition.
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

/// Formats a string as JSON that is safe inside HTML.
fn json(text: &str) -> String {
    go_format::marshal(&Value::from(text))
}
