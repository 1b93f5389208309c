//! The pod failure policy and the success policy of a job.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};

use super::indexes;
use crate::field_errors::FieldErrors;
use crate::kinds::internal_types::{Field, OPTIONAL, Shape, TEXT, pointer};
use crate::object::{integer, is_set, items, text};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;
const MAX_INDEXES: usize = 64 * 1024;

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

const EXIT_CODES: &[Field] =
    &[("ContainerName", "containerName", OPTIONAL), ("Operator", "operator", TEXT), ("Values", "values", OPTIONAL)];
const POD_CONDITION: &[Field] = &[("Type", "type", TEXT), ("Status", "status", TEXT)];
const FAILURE_RULE: &[Field] = &[
    ("Action", "action", TEXT),
    ("OnExitCodes", "onExitCodes", pointer(EXIT_CODES)),
    ("OnPodConditions", "onPodConditions", Shape::List(POD_CONDITION)),
];
/// A failure policy as shown in messages.
pub(super) const FAILURE_POLICY: &[Field] = &[("Rules", "rules", Shape::List(FAILURE_RULE))];

const SUCCESS_RULE: &[Field] =
    &[("SucceededIndexes", "succeededIndexes", OPTIONAL), ("SucceededCount", "succeededCount", OPTIONAL)];
/// A success policy as shown in messages.
pub(super) const SUCCESS_POLICY: &[Field] = &[("Rules", "rules", Shape::List(SUCCESS_RULE))];

/// Validates `podFailurePolicy`.
pub(super) fn validate_failure(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let path = path.child("rules");
    let rules = items(spec, "/podFailurePolicy/rules");
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_failure_rule(spec, rule, &path.index(index), errors);
    }
}

fn validate_failure_rule(spec: &Value, rule: &Value, path: &Path, errors: &mut ErrorList) {
    let at = path.child("action");
    match text(rule, "/action") {
        "FailIndex" if !is_set(spec, "/backoffLimitPerIndex") => {
            errors.invalid(&at, "FailIndex", "requires the backoffLimitPerIndex to be set");
        }
        action => one_of_these(&at, action, ACTIONS, errors),
    }
    let codes = rule.get("onExitCodes").filter(|codes| !codes.is_null());
    let conditions = items(rule, "/onPodConditions");
    if let Some(codes) = codes {
        validate_exit_codes(spec, codes, &path.child("onExitCodes"), errors);
    }
    let at = path.child("onPodConditions");
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(&at, conditions.len(), MAX_CONDITIONS));
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let at = at.index(index);
        errors.qualified_name(&at.child("type"), text(pattern, "/type"));
        one_of_these(&at.child("status"), text(pattern, "/status"), STATUSES, errors);
    }
    match (codes.is_some(), !conditions.is_empty()) {
        (true, true) => invalid_at(path, "specifying both OnExitCodes and OnPodConditions is not supported", errors),
        (false, false) => invalid_at(path, "specifying one of OnExitCodes and OnPodConditions is required", errors),
        _ => {}
    }
}

fn validate_exit_codes(spec: &Value, codes: &Value, path: &Path, errors: &mut ErrorList) {
    let operator = text(codes, "/operator");
    one_of_these(&path.child("operator"), operator, OPERATORS, errors);
    if is_set(codes, "/containerName") {
        let name = text(codes, "/containerName");
        let lists = ["/template/spec/containers", "/template/spec/initContainers"];
        if !lists.iter().flat_map(|list| items(spec, list)).any(|container| text(container, "/name") == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.invalid(&path.child("containerName"), name, detail);
        }
    }
    let path = path.child("values");
    let values = items(codes, "/values");
    let shown = || codes.get("values").cloned().unwrap_or(Value::Null);
    if values.is_empty() {
        errors.invalid(&path, shown(), "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(FieldError::too_many(&path, values.len(), MAX_EXIT_CODES));
    }
    let values: Vec<i64> = values.iter().map(|value| value.as_i64().unwrap_or_default()).collect();
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        let path = path.index(index);
        if operator == "In" && *value == 0 {
            errors.invalid(&path, 0, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(&path, &(*value).into()));
        }
    }
    if !values.is_sorted() {
        errors.invalid(&path, shown(), "must be ordered");
    }
}

/// Validates `successPolicy` of an indexed job.
pub(super) fn validate_success(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let path = path.child("rules");
    let rules = items(spec, "/successPolicy/rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required_because(&path, detail);
    }
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&path, rules.len(), MAX_RULES));
    }
    // kube-apiserver panics on an indexed job without completions that has such a rule.
    let completions = integer(spec, "/completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        validate_success_rule(rule, completions, &path.index(index), errors);
    }
}

fn validate_success_rule(rule: &Value, completions: i64, path: &Path, errors: &mut ErrorList) {
    let indexes = rule.get("succeededIndexes").and_then(Value::as_str);
    let wanted = integer(rule, "/succeededCount");
    if indexes.is_none() && wanted.is_none() {
        errors.required_because(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let path = path.child("succeededIndexes");
        if indexes.len() > MAX_INDEXES {
            errors.push(FieldError::too_long(&path, MAX_INDEXES));
        }
        match indexes::count(indexes, completions) {
            Ok(count) => total = count,
            Err(error) => errors.invalid(&path, indexes, format!("error parsing succeededIndexes: {error}")),
        }
    }
    let Some(wanted) = wanted else { return };
    let path = path.child("succeededCount");
    errors.nonnegative(&path, Some(wanted));
    if wanted > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(&path, wanted, detail);
    }
    if indexes.is_some() && wanted > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&path, wanted, detail);
    }
}

/// Requires one of the supported values; if the value is missing, the error lists them.
fn one_of_these(path: &Path, value: &str, supported: &[&str], errors: &mut ErrorList) {
    if value.is_empty() {
        let list: Vec<_> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        errors.required_because(path, format!("valid values: [{}]", list.join(" ")));
    } else if !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

/// Reports an error without showing the value.
pub(super) fn invalid_at(path: &Path, detail: &str, errors: &mut ErrorList) {
    errors.push(FieldError {
        kind: ErrorKind::Invalid,
        field: path.to_string(),
        value: None,
        detail: detail.to_owned(),
    });
}
