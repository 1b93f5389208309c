//! Validation of `x-kubernetes-validations`, except for the expressions themselves.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::structural::field_path::{Brackets, FieldPath};

use super::schema::Props;
use super::structural;
use crate::object::{is_set, text};

/// Allowed reasons of a rule, in the order of the messages.
const REASONS: &[&str] = &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Validates the rules of one schema.
pub(super) fn validate(schema: Props<'_>, path: &Path, errors: &mut ErrorList) {
    let rules = schema.list("x-kubernetes-validations");
    let uses_paths = rules.iter().any(|rule| !text(rule, "/fieldPath").is_empty());
    // Without a structural form, paths are not checked.
    let follows_paths = uses_paths && structural::unsupported(schema).is_none();
    for (index, rule) in rules.iter().enumerate() {
        let path = path.child("x-kubernetes-validations").index(index);
        messages(rule, &path, errors);
        if is_set(rule, "/reason") && !REASONS.contains(&text(rule, "/reason")) {
            let reason = text(rule, "/reason").into();
            errors.push(FieldError::not_supported(&path.child("reason"), &reason, REASONS));
        }
        let (path, field_path) = (path.child("fieldPath"), text(rule, "/fieldPath"));
        let mut invalid = |detail| errors.push(FieldError::invalid(&path, &field_path.into(), detail));
        if !field_path.is_empty() && field_path.trim().is_empty() {
            invalid("must be non-empty if specified");
        }
        if has_newlines(field_path) {
            invalid("must not contain line breaks");
        }
        if !field_path.is_empty()
            && follows_paths
            && FieldPath::parse(field_path, Some(schema), Brackets::Allowed).is_err()
        {
            invalid("must be a valid path");
        }
    }
}

fn messages(rule: &Value, path: &Path, errors: &mut ErrorList) {
    let (expression, message) = (text(rule, "/rule").trim(), text(rule, "/message"));
    let message_path = path.child("message");
    if expression.is_empty() {
        errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(&message_path, &message.into(), "must be non-empty if specified"));
    } else if has_newlines(message.trim()) {
        errors.push(FieldError::invalid(&message_path, &message.into(), "must not contain line breaks"));
    } else if has_newlines(expression) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(&message_path, detail));
    }
    let expression = text(rule, "/messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&path.child("messageExpression"), detail));
    }
}

fn has_newlines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
