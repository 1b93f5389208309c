//! MutatingAdmissionPolicies.

use serde_json::Value;
use windlass_cel::policy::{Compiler, Returns};
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::spec;
use crate::kinds::admission_rule::{expression_error, one_of};
use crate::object::{is_set, items, text};
use crate::strategy::Strategy;

/// Strategy of MutatingAdmissionPolicies.
#[derive(Debug, Clone, Copy)]
pub struct MutatingAdmissionPolicy;

impl Strategy for MutatingAdmissionPolicy {
    fn default(&self, object: &mut Value) {
        spec::default(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate_spec(object, true)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validate_spec(object, !spec::keeps_conditions(object, old))
    }
}

fn validate_spec(object: &Value, with_conditions: bool) -> ErrorList {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let mut errors = spec::validate_matching(spec, with_conditions, true, &path);
    let mut compiler = Compiler::new(spec::has_params(spec)).with_variables();
    errors.extend(spec::validate_variables(spec, &mut compiler, &path));
    let mutations = items(spec, "/mutations");
    if mutations.is_empty() {
        errors.push(FieldError::required(&path.child("mutations"), "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        errors.extend(validate_mutation(mutation, &compiler, &path.child("mutations").index(index)));
    }
    match text(spec, "/reinvocationPolicy") {
        "" => errors.push(FieldError::required(&path.child("reinvocationPolicy"), "")),
        _ => errors.extend(one_of(spec, "reinvocationPolicy", &["IfNeeded", "Never"], &path)),
    }
    errors
}

fn validate_mutation(mutation: &Value, compiler: &Compiler, path: &Path) -> ErrorList {
    let (own, other, returns) = match text(mutation, "/patchType") {
        "" => return vec![FieldError::required(&path.child("patchType"), "")],
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Returns::JsonPatch),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Returns::ApplyConfiguration),
        _ => return one_of(mutation, "patchType", &["ApplyConfiguration", "JSONPatch"], path).into_iter().collect(),
    };
    let patch_type = text(mutation, "/patchType");
    let mut errors = ErrorList::new();
    match is_set(mutation, &format!("/{own}")) {
        false => {
            let detail = format!("must be specified when patchType is {patch_type}");
            errors.push(FieldError::required(&path.child(own), detail));
        }
        true => {
            let at = path.child(own).child("expression");
            let expression = text(mutation, &format!("/{own}/expression")).trim();
            if expression.is_empty() {
                errors.push(FieldError::required(&at, ""));
            } else if let Err(error) = compiler.compile(expression, returns, true) {
                errors.push(expression_error(&at, expression, error));
            }
        }
    }
    if is_set(mutation, &format!("/{other}")) {
        let detail = format!("must not be specified when patchType is {patch_type}");
        errors.push(FieldError::invalid(&path.child(other), &format!("{{{other}}}").into(), detail));
    }
    errors
}
