//! The `x-kubernetes-validations` of structural schemas.
//!
//! [`compile`] prepares the rules of a schema, [`Rules::validate`] evaluates them on an object, and
//! [`validate_crd_rules`] validates the rules of a CustomResourceDefinition. All three match kube-apiserver: the same
//! errors in the same order, at the same cost.
//!
//! Work is bounded: an evaluation by [`PER_CALL_LIMIT`], and the rules of an object by the caller's budget, which is
//! normally [`OBJECT_BUDGET`]. A CustomResourceDefinition is rejected if the estimated cost of its rules is too high.

use std::sync::Arc;

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::go_regex;
use windlass_schema::structural::Structural;

mod compiled;
mod correlation;
mod crd;
mod evaluate;
mod show;
mod trail;
mod tree;
mod validate;

pub use compiled::{CompiledRule, RuleError, RuleErrorKind};
pub use crd::{CrdRulesOptions, validate_crd_rules};

/// Maximum cost of one evaluation of a rule.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// Maximum cost of all rules of one object.
pub const OBJECT_BUDGET: i64 = 10_000_000;
/// Maximum estimated cost of one rule in a CustomResourceDefinition.
pub const RULE_LIMIT: u64 = 10_000_000;
/// Maximum estimated cost of all rules of one schema.
pub const SCHEMA_LIMIT: u64 = 100_000_000;

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules {
    schema: Arc<Structural>,
    root: tree::Node,
}

/// Result of evaluating the rules on an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Errors, in the order in which they were found.
    pub errors: ErrorList,
    /// Errors that already existed unchanged in the old object, to be reported as warnings.
    pub warnings: Vec<String>,
}

/// Compiles the rules of a schema; returns `None` if there are none, so that objects without rules cost nothing.
/// `resource_root` is true for the schema of a custom resource or an embedded one.
pub fn compile(schema: &Arc<Structural>, resource_root: bool) -> Option<Rules> {
    if !has_rules(schema) {
        return None;
    }
    let root = go_regex::with_shared_limits(|| tree::Node::root(schema, resource_root));
    root.map(|root| Rules { schema: schema.clone(), root })
}

/// Returns whether a schema or a subschema has rules. Rules that occur only below `allOf` do not count.
pub fn has_rules(schema: &Structural) -> bool {
    tree::has_rules(schema)
}

/// Returns the error that is reported in place of the rules if they cannot run: an object with these errors may not
/// have the types that the rules expect.
pub fn blocked_by(errors: &[FieldError]) -> Option<FieldError> {
    let blocking = |error: &FieldError| {
        matches!(
            error.kind,
            ErrorKind::NotSupported
                | ErrorKind::Required
                | ErrorKind::TooLong
                | ErrorKind::TooMany
                | ErrorKind::TypeInvalid
        )
    };
    errors.iter().any(blocking).then(|| {
        FieldError::invalid(
            &Path::root(),
            &Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        )
    })
}

impl Rules {
    /// Evaluates the rules on an object at a path (the root for a whole object).
    ///
    /// With an old object, rules that use `oldSelf` run, and errors in values that did not change become warnings. The
    /// cost of the rules is subtracted from the budget; when it is used up, an error is reported, no further rule runs,
    /// and the budget is negative.
    pub fn validate(&self, path: &Path, new: &Value, old: Option<&Value>, budget: &mut i64) -> Outcome {
        validate::run(&self.root, &self.schema, path, new, old, old, budget)
    }

    /// Evaluates the rules on a default: first as an unchanged value, then, if there are no errors, as a new one.
    /// Errors are not excused for unchanged values. The larger of the two costs is subtracted from the budget.
    pub fn validate_default(&self, path: &Path, value: &Value, budget: &mut i64) -> ErrorList {
        let mut left = *budget;
        let errors = validate::run(&self.root, &self.schema, path, value, Some(value), None, &mut left).errors;
        if !errors.is_empty() {
            *budget = left;
            return errors;
        }
        let errors = validate::run(&self.root, &self.schema, path, value, None, None, budget).errors;
        *budget = left.min(*budget);
        errors
    }

    /// Returns the compiled rules of the schema's root.
    pub fn of_root(&self) -> &[CompiledRule] {
        self.root.rules()
    }
}

#[cfg(test)]
mod tests;
