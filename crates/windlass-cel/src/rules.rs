//! The `x-kubernetes-validations` of structural schemas.
//!
//! [`compile`] makes the rules of a schema ready to run, [`Rules::validate`] runs them over an object, and
//! [`check_definition`] says what the server has against rules when somebody writes a definition. All three tell the
//! same story as the real server: the same errors in the same order, at the same cost.
//!
//! Work is bounded: an evaluation by [`PER_CALL_LIMIT`], the rules of an object by the budget of the caller, which is
//! normally [`OBJECT_BUDGET`], and a definition is refused when its rules could cost more than that allows for.

use std::sync::Arc;

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::go_regex;
use windlass_schema::structural::Structural;

mod compiled;
mod correlation;
mod definition;
mod evaluate;
mod show;
mod trail;
mod tree;
mod validate;

pub use compiled::{CompiledRule, RuleError, RuleErrorKind};
pub use definition::{DefinitionOptions, check_definition};

/// The most one evaluation of a rule may cost.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// The most that all rules of one object may cost.
pub const OBJECT_BUDGET: i64 = 10_000_000;
/// The most one rule of a definition may be estimated to cost.
pub const RULE_LIMIT: u64 = 10_000_000;
/// The most all rules of one schema may be estimated to cost.
pub const SCHEMA_LIMIT: u64 = 100_000_000;

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules {
    schema: Arc<Structural>,
    root: tree::Node,
}

/// What the rules have to say about an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// What is wrong, in the order it was found.
    pub errors: ErrorList,
    /// What is wrong but was wrong before in the same way, to be told as warnings.
    pub warnings: Vec<String>,
}

/// Compiles the rules of a schema; `None` if it has none, so that objects without rules cost nothing.
/// `resource_root` is true for the schema of a custom resource or an embedded one.
pub fn compile(schema: &Arc<Structural>, resource_root: bool) -> Option<Rules> {
    if !has_rules(schema) {
        return None;
    }
    let root = go_regex::bounded(|| tree::Node::root(schema, resource_root));
    root.map(|root| Rules { schema: schema.clone(), root })
}

/// Whether a schema or a part of it has rules. Rules that are only below `allOf` do not count.
pub fn has_rules(schema: &Structural) -> bool {
    tree::has_rules(schema)
}

/// The error that stands in for the rules when they cannot run: an object with errors of these kinds may not have the
/// types the rules expect.
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
    /// Runs the rules over an object at a path (the root for a whole object).
    ///
    /// With an old object, rules that compare with `oldSelf` run, and what was wrong before and did not change becomes a
    /// warning. What the rules cost is taken from the budget; when it is used up there is an error that says so, no
    /// further rule runs, and the budget is below zero.
    pub fn validate(&self, path: &Path, new: &Value, old: Option<&Value>, budget: &mut i64) -> Outcome {
        validate::run(&self.root, &self.schema, path, new, old, old, budget)
    }

    /// Runs the rules over a default: first as a value that stays what it is, then, if nothing is wrong with that, as
    /// one that is new. Nothing is excused for not having changed. The dearer of the two is taken from the budget.
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

    /// The compiled rules of the schema's root.
    pub fn of_root(&self) -> &[CompiledRule] {
        self.root.rules()
    }
}

#[cfg(test)]
mod tests;
