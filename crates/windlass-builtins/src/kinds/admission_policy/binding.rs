//! ValidatingAdmissionPolicyBindings and MutatingAdmissionPolicyBindings.

use std::collections::HashSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};
use windlass_schema::names::{is_path_segment_name, name_is_dns_subdomain};

use super::match_resources;
use crate::kinds::admission_rule::one_of;
use crate::object::{is_set, items, text};
use crate::strategy::Strategy;
use crate::validate;

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

/// Strategy of bindings.
#[derive(Debug, Clone, Copy)]
pub struct PolicyBinding {
    /// Whether the policy changes objects.
    mutating: bool,
}

impl PolicyBinding {
    /// MutatingAdmissionPolicyBindings.
    pub const MUTATING: Self = Self { mutating: true };
    /// ValidatingAdmissionPolicyBindings.
    pub const VALIDATING: Self = Self { mutating: false };
}

impl Strategy for PolicyBinding {
    fn default(&self, object: &mut Value) {
        match_resources::default(object, "matchResources");
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let (spec, path) = (&object["spec"], Path::new("spec"));
        let mut errors = ErrorList::new();
        let (policy, at) = (text(spec, "/policyName"), path.child("policyName"));
        match policy.is_empty() {
            true => errors.push(FieldError::required(&at, "")),
            false => errors.extend(validate::each(&at, policy, name_is_dns_subdomain(policy, false))),
        }
        if is_set(spec, "/paramRef") {
            errors.extend(param_ref(&spec["paramRef"], &path.child("paramRef")));
        }
        let at = path.child("matchResources");
        errors.extend(match_resources::validate(&spec["matchResources"], &at));
        match self.mutating {
            true => errors.extend(match_resources::only_mutating_operations(&spec["matchResources"], &at)),
            false => errors.extend(actions(items(spec, "/validationActions"), &path.child("validationActions"))),
        }
        errors
    }
}

fn param_ref(reference: &Value, path: &Path) -> ErrorList {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let mut errors = ErrorList::new();
    let (name, has_selector) = (text(reference, "/name"), is_set(reference, "/selector"));
    if !name.is_empty() {
        errors.extend(validate::each(&path.child("name"), name, is_path_segment_name(name)));
        if has_selector {
            errors.push(FieldError::forbidden(&path.child("name"), EXCLUSIVE));
        }
    }
    if has_selector {
        let at = path.child("selector");
        errors.extend(validate_label_selector(reference.get("selector"), LabelSelectorOptions::default(), &at));
        if !name.is_empty() {
            errors.push(FieldError::forbidden(&at, EXCLUSIVE));
        }
    }
    if name.is_empty() && !has_selector {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    match text(reference, "/parameterNotFoundAction") {
        "" => errors.push(FieldError::required(&path.child("parameterNotFoundAction"), "")),
        _ => errors.extend(one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path)),
    }
    errors
}

fn actions(actions: &[Value], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut seen = HashSet::new();
    for (index, action) in actions.iter().enumerate() {
        let text = action.as_str().unwrap_or_default();
        if !ACTIONS.contains(&text) {
            errors.push(FieldError::not_supported(&path.index(index), action, ACTIONS));
        }
        if !seen.insert(text) {
            errors.push(FieldError::duplicate(&path.index(index), action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                      API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, &actions.into(), detail));
    }
    if seen.is_empty() {
        errors.push(FieldError::required(path, "at least one validation action is required"));
    }
    errors
}
