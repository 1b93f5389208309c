//! The part of the specification that validating and mutating policies share.

use serde_json::Value;
use windlass_cel::policy::Compiler;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names::{is_dns1035_label, is_dns1123_subdomain};

use super::match_resources;
use crate::kinds::admission_rule::{conditions, expression_error, one_of};
use crate::object::{is_set, items, set_default, text};

const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Sets the defaults of a specification.
pub(super) fn default(object: &mut Value) {
    set_default(object, "/spec/failurePolicy", "Fail");
    match_resources::default(object, "matchConstraints");
}

/// Returns whether the policy has parameters.
pub(super) fn has_params(spec: &Value) -> bool {
    is_set(spec, "/paramKind")
}

/// Returns whether an update leaves everything as it was that match conditions depend on.
pub(super) fn keeps_conditions(new: &Value, old: &Value) -> bool {
    let same = |field: &str| new["spec"].get(field) == old["spec"].get(field);
    same("paramKind") && items(new, "/spec/matchConditions") == items(old, "/spec/matchConditions")
}

/// Validates which requests the policy matches. `with_conditions` is false for an update that does not concern match
/// conditions.
pub(super) fn validate_matching(spec: &Value, with_conditions: bool, mutating: bool, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    match is_set(spec, "/failurePolicy") {
        false => errors.push(FieldError::required(&path.child("failurePolicy"), "")),
        true => errors.extend(one_of(spec, "failurePolicy", &["Fail", "Ignore"], path)),
    }
    if has_params(spec) {
        errors.extend(param_kind(&spec["paramKind"], &path.child("paramKind")));
    }
    let (constraints, at) = (&spec["matchConstraints"], path.child("matchConstraints"));
    match constraints.is_null() {
        true => errors.push(FieldError::required(&at, "")),
        false => {
            errors.extend(match_resources::validate(constraints, &at));
            if items(constraints, "/resourceRules").is_empty() {
                errors.push(FieldError::required(&at.child("resourceRules"), ""));
            }
            if mutating {
                errors.extend(match_resources::only_mutating_operations(constraints, &at));
            }
        }
    }
    if with_conditions {
        errors.extend(conditions(items(spec, "/matchConditions"), has_params(spec), &path.child("matchConditions")));
    }
    errors
}

/// Validates the variables, and declares them for the expressions after them.
pub(super) fn validate_variables(spec: &Value, compiler: &mut Compiler, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, variable) in items(spec, "/variables").iter().enumerate() {
        let at = path.child("variables").index(index);
        let (name, expression) = (text(variable, "/name"), text(variable, "/expression"));
        if name.trim().is_empty() {
            errors.push(FieldError::required(&at.child("name"), "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(FieldError::invalid(&at.child("name"), &name.into(), "must be a valid CEL identifier"));
        }
        let at = at.child("expression");
        if expression.trim().is_empty() {
            errors.push(FieldError::required(&at, "expression is not specified"));
        } else if let Err(error) = compiler.variable(name, expression) {
            errors.push(expression_error(&at, expression, error));
        }
    }
    errors
}

fn is_identifier(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphabetic());
    first && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) && !RESERVED.contains(&name)
}

fn param_kind(kind: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let (api_version, at) = (text(kind, "/apiVersion"), path.child("apiVersion"));
    let mut invalid = |value: &str, detail: String| errors.push(FieldError::invalid(&at, &value.into(), detail));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if version.contains('/') {
        invalid(api_version, format!("unexpected GroupVersion string: {api_version}"));
    } else if !api_version.is_empty() {
        let problems = if group.is_empty() { Vec::new() } else { is_dns1123_subdomain(group) };
        if !problems.is_empty() {
            invalid(group, problems.join(","));
        }
        let problems = is_dns1035_label(version);
        if version.is_empty() {
            invalid(api_version, "version must be specified".to_owned());
        } else if !problems.is_empty() {
            invalid(version, problems.join(","));
        }
    }
    if api_version.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    let (kind, at) = (text(kind, "/kind"), path.child("kind"));
    let problems = is_dns1035_label(&kind.to_lowercase());
    if kind.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if !problems.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.push(FieldError::invalid(&at, &kind.into(), detail));
    }
    errors
}
