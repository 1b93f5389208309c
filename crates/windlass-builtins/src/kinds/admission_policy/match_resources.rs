//! Match constraints of policies and match resources of bindings.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};
use windlass_schema::names::is_path_segment_name;

use crate::kinds::admission_rule::{one_of, validate_rule};
use crate::object::{is_set, items, list_mut, set_default};
use crate::validate;

/// The operations of mutating policies.
const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

/// Sets the defaults in a field of the specification, if it is set.
pub(super) fn default(object: &mut Value, field: &str) {
    let resources = object.get_mut("spec").and_then(|spec| spec.get_mut(field));
    let Some(resources) = resources.filter(|resources| resources.is_object()) else { return };
    set_default(resources, "/matchPolicy", "Equivalent");
    set_default(resources, "/namespaceSelector", json!({}));
    set_default(resources, "/objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in list_mut(resources, rules) {
            set_default(rule, "/scope", "*");
        }
    }
}

/// Validates match resources; nothing if they are not set.
pub(super) fn validate(resources: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if resources.is_null() {
        return errors;
    }
    match is_set(resources, "/matchPolicy") {
        false => errors.push(FieldError::required(&path.child("matchPolicy"), "")),
        true => errors.extend(one_of(resources, "matchPolicy", &["Equivalent", "Exact"], path)),
    }
    for field in ["namespaceSelector", "objectSelector"] {
        let at = path.child(field);
        match is_set(resources, &format!("/{field}")) {
            false => errors.push(FieldError::required(&at, "")),
            true => {
                let options = LabelSelectorOptions::default();
                errors.extend(validate_label_selector(resources.get(field), options, &at));
            }
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(resources, &format!("/{field}")).iter().enumerate() {
            errors.extend(named_rule(rule, &path.child(field).index(index)));
        }
    }
    errors
}

fn named_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut names = HashSet::new();
    for (index, name) in items(rule, "/resourceNames").iter().enumerate() {
        let (at, name) = (path.child("resourceNames").index(index), name.as_str().unwrap_or_default());
        errors.extend(validate::each(&at, name, is_path_segment_name(name)));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&at, &name.into()));
        }
    }
    errors.extend(validate_rule(rule, path));
    errors
}

/// Rejects operations that change no object.
pub(super) fn only_mutating_operations(resources: &Value, path: &Path) -> ErrorList {
    let path = path.child("resourceRules").child("operations");
    let operations = items(resources, "/resourceRules").iter().flat_map(|rule| items(rule, "/operations"));
    let unsupported = operations
        .filter(|operation| !operation.as_str().is_some_and(|operation| MUTATING_OPERATIONS.contains(&operation)));
    unsupported.map(|operation| FieldError::not_supported(&path, operation, MUTATING_OPERATIONS)).collect()
}
