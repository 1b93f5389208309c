//! Validation of rules and match conditions, which webhooks and admission policies share.

use std::collections::HashSet;

use serde_json::Value;
use windlass_cel::policy::{CompileError, Compiler, Returns};
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::object::{items, text};
use crate::validate;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Maximum number of match conditions.
const MAX_CONDITIONS: usize = 64;

/// Rejects a string that is not supported.
pub(super) fn one_of(object: &Value, field: &str, supported: &[&str], path: &Path) -> Option<FieldError> {
    let value = object[field].as_str().filter(|value| !supported.contains(value))?;
    Some(FieldError::not_supported(&path.child(field), &value.into(), supported))
}

/// Validates a rule: which operations and resources it matches.
pub(super) fn validate_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let list = |field: &str, what: &str| {
        let (at, values) = (path.child(field), items(rule, &format!("/{field}")));
        if values.is_empty() {
            return Some(FieldError::required(&at, ""));
        }
        let crowded = values.len() > 1 && values.iter().any(|value| value == "*");
        crowded.then(|| {
            FieldError::invalid(&at, &values.into(), format!("if '*' is present, must not specify other {what}"))
        })
    };
    errors.extend(list("operations", "operations"));
    for (index, operation) in items(rule, "/operations").iter().enumerate() {
        if !operation.as_str().is_some_and(|operation| OPERATIONS.contains(&operation)) {
            let at = path.child("operations").index(index);
            errors.push(FieldError::not_supported(&at, operation, OPERATIONS));
        }
    }
    errors.extend(list("apiGroups", "API groups"));
    errors.extend(list("apiVersions", "API versions"));
    for (index, version) in items(rule, "/apiVersions").iter().enumerate() {
        if version == "" {
            errors.push(FieldError::required(&path.child("apiVersions").index(index), ""));
        }
    }
    errors.extend(resources(items(rule, "/resources"), &path.child("resources")));
    errors.extend(one_of(rule, "scope", &["*", "Cluster", "Namespaced"], path));
    errors
}

fn resources(resources: &[Value], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_subresources, mut of_all_resources) = (HashSet::new(), HashSet::new());
    let mut plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let (at, resource) = (path.index(index), resource.as_str().unwrap_or_default());
        if resource.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let Some((name, subresource)) = resource.split_once('/') else {
            // Only the last one counts, as in kube-apiserver.
            plain = resource != "*";
            continue;
        };
        let mut taken = |by: String| {
            let detail = format!("if '{by}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&at, &resource.into(), detail));
        };
        if all_subresources.contains(name) {
            taken(format!("{name}/*"));
        }
        if of_all_resources.contains(subresource) {
            taken(format!("*/{subresource}"));
        }
        if subresource == "*" {
            all_subresources.insert(name);
        }
        if name == "*" {
            of_all_resources.insert(subresource);
        }
    }
    let has = |wanted: &str| resources.iter().any(|resource| resource == wanted);
    if resources.len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, &resources.into(), detail));
    }
    if plain && has("*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, &resources.into(), detail));
    }
    errors
}

/// Validates match conditions, which can use `params` if there are any.
pub(super) fn conditions(conditions: &[Value], has_params: bool, path: &Path) -> ErrorList {
    let compiler = Compiler::new(has_params);
    let mut errors = ErrorList::new();
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, conditions.len(), MAX_CONDITIONS));
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let (at, expression) = (path.index(index), text(condition, "/expression").trim());
        let expression_at = at.child("expression");
        if expression.is_empty() {
            errors.push(FieldError::required(&expression_at, ""));
        } else if let Err(error) = compiler.compile(expression, Returns::Bool, true) {
            errors.push(expression_error(&expression_at, expression, error));
        }
        let (at, name) = (at.child("name"), text(condition, "/name"));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        errors.extend(validate::qualified_name(&at, name));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&at, &name.into()));
        }
    }
    errors
}

/// Returns the error of a field whose expression does not compile.
pub(super) fn expression_error(path: &Path, expression: &str, error: CompileError) -> FieldError {
    match error.internal {
        true => validate::internal(path, error.detail),
        false => FieldError::invalid(path, &expression.into(), error.detail),
    }
}
