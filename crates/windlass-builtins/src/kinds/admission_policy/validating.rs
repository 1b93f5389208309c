//! ValidatingAdmissionPolicies.

use std::collections::HashSet;

use serde_json::Value;
use windlass_cel::policy::{Compiler, Returns};
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::json_path::JsonPath;

use super::spec;
use crate::field_errors::FieldErrors;
use crate::kinds::admission_rule::{expression_error, one_of};
use crate::kinds::conditions;
use crate::object::{items, text};
use crate::strategy::Strategy;
use crate::validate::{self, go_struct};

const MAX_ANNOTATIONS: usize = 20;
const MAX_VALUE_EXPRESSION: usize = 5 * 1024;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const NOTHING_TO_DO: &str = "validations or auditAnnotations must contain at least one item";

/// Strategy of ValidatingAdmissionPolicies.
#[derive(Debug, Clone, Copy)]
pub struct ValidatingAdmissionPolicy;

impl Strategy for ValidatingAdmissionPolicy {
    fn default(&self, object: &mut Value) {
        spec::default(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate_spec(object, true)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validate_spec(object, !spec::keeps_conditions(object, old))
    }

    fn validate_subresource_update(&self, _subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        validate_status(object)
    }
}

fn validate_spec(object: &Value, with_conditions: bool) -> ErrorList {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let mut errors = spec::validate_matching(spec, with_conditions, false, &path);
    let has_params = spec::has_params(spec);
    let mut compiler = Compiler::new(has_params);
    if !items(spec, "/variables").is_empty() {
        compiler = compiler.with_variables();
        errors.extend(spec::validate_variables(spec, &mut compiler, &path));
    }
    let (validations, annotations) = (items(spec, "/validations"), items(spec, "/auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        errors.push(FieldError::required(&path.child("validations"), NOTHING_TO_DO));
        errors.push(FieldError::required(&path.child("auditAnnotations"), NOTHING_TO_DO));
        return errors;
    }
    for (index, validation) in validations.iter().enumerate() {
        errors.extend(validate_validation(validation, &compiler, &path.child("validations").index(index)));
    }
    let path = path.child("auditAnnotations");
    if annotations.len() > MAX_ANNOTATIONS {
        let shown = annotations.iter().map(|annotation| {
            go_struct(&[("Key", &annotation["key"]), ("ValueExpression", &annotation["valueExpression"])])
        });
        let shown = format!("[{}]", shown.collect::<Vec<_>>().join(","));
        errors.invalid_shown(&path, shown, format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations"));
    }
    let mut keys = HashSet::new();
    let name = text(object, "/metadata/name");
    for (index, annotation) in annotations.iter().enumerate() {
        errors.extend(validate_annotation(annotation, name, &compiler, &path.index(index)));
        let key = text(annotation, "/key");
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(&path.index(index).child("key"), &key.into()));
        }
    }
    errors
}

fn validate_validation(validation: &Value, compiler: &Compiler, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let (expression, at) = (text(validation, "/expression"), path.child("expression"));
    if expression.trim().is_empty() {
        errors.push(FieldError::required(&at, "expression is not specified"));
    } else if let Err(error) = compiler.compile(expression, Returns::Bool, true) {
        errors.push(expression_error(&at, expression, error));
    }
    let (expression, at) = (text(validation, "/messageExpression"), path.child("messageExpression"));
    if !expression.is_empty() && expression.trim().is_empty() {
        errors.push(FieldError::invalid(&at, &expression.into(), "must be non-empty if specified"));
    } else if !expression.is_empty()
        && let Err(error) = compiler.compile(expression, Returns::Text, false)
    {
        errors.push(expression_error(&at, expression, error));
    }
    let (message, at) = (text(validation, "/message"), path.child("message"));
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(&at, &message.into(), "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(FieldError::invalid(&at, &message.into(), "must not contain line breaks"));
    }
    errors.extend(one_of(validation, "reason", REASONS, path));
    errors
}

fn validate_annotation(annotation: &Value, policy: &str, compiler: &Compiler, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let (key, at) = (text(annotation, "/key"), path.child("key"));
    match policy.is_empty() {
        false => errors.extend(validate::qualified_name(&at, &format!("{policy}/{key}"))),
        true => errors.push(FieldError::invalid(&at, &key.into(), "requires metadata.name be non-empty")),
    }
    let (written, at) = (text(annotation, "/valueExpression"), path.child("valueExpression"));
    let expression = written.trim();
    if expression.is_empty() {
        errors.push(FieldError::required(&at, "valueExpression is not specified"));
    } else if expression.len() > MAX_VALUE_EXPRESSION {
        let detail = format!("must not exceed {MAX_VALUE_EXPRESSION} bytes in length");
        errors.push(FieldError::required(&at, detail));
    } else if let Err(error) = compiler.compile(expression, Returns::TextOrNull, true) {
        errors.push(expression_error(&at, written, error));
    }
    errors
}

fn validate_status(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status").child("typeChecking").child("expressionWarnings");
    for (index, warning) in items(object, "/status/typeChecking/expressionWarnings").iter().enumerate() {
        let path = path.index(index);
        if text(warning, "/warning").is_empty() {
            errors.push(FieldError::required(&path.child("warning"), ""));
        }
        let (field, at) = (text(warning, "/fieldRef").trim(), path.child("fieldRef"));
        if field.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if let Err(error) = JsonPath::template(&format!("{{{field}}}")) {
            errors.push(FieldError::invalid(&at, &field.into(), format!("invalid JSONPath: {error}")));
        }
    }
    conditions::validate(object, "/status/conditions", &Path::new("status").child("conditions"), &mut errors);
    errors
}
