//! Evaluation: a checked expression is planned once and evaluated on any number of objects.
//!
//! A [`Program`] contains no evaluation state and can be shared between threads. An evaluation is bounded by its cost:
//! it stops as soon as it exceeds its limit.

use std::sync::Arc;

use crate::checker::Checked;
use crate::runtime_cost::Meter;
use crate::value::{EvalError, Value};

mod attribute;
mod call;
mod composition;
mod evaluate;
mod fold;
mod guard;
mod node;
mod plan;
#[cfg(test)]
mod tests;

pub use composition::{ComposedVariable, Composition, VARIABLES};
use evaluate::Evaluator;
use node::Node;

/// An expression that is ready for evaluation.
#[derive(Debug)]
pub struct Program {
    root: Node,
    /// Names of the variables it refers to.
    globals: Vec<String>,
    /// Names of the composed variables it refers to.
    composed: Vec<String>,
    /// Number of slots for the variables of its comprehensions.
    locals: usize,
}

/// Reason why a well-typed expression cannot be planned: it contains an invalid constant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) String);

/// The variables of an evaluation. The value of a variable may itself be an error, which is reported when it is used.
#[derive(Debug, Clone, Default)]
pub struct Bindings<'a> {
    variables: Vec<(&'a str, Result<Value<'a>, EvalError>)>,
    composition: Option<Arc<Composition<'a>>>,
}

/// Result of an evaluation.
#[derive(Debug, Clone)]
pub struct Evaluation<'a> {
    /// The value or error.
    pub result: Result<Value<'a>, EvalError>,
    /// The cost, even of a failed evaluation.
    pub cost: u64,
}

impl<'a> Bindings<'a> {
    /// Returns an empty set of variables.
    pub fn new() -> Self {
        Bindings::default()
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: impl Into<Result<Value<'a>, EvalError>>) -> Self {
        self.set(name, value);
        self
    }

    /// Returns these variables, and others that are composed of them when they are used.
    #[must_use]
    pub fn composed(self, variables: &'a [ComposedVariable], limit: u64) -> Self {
        let composition = Arc::new(Composition::new(variables, self.variables.clone(), limit));
        Bindings { composition: Some(composition), ..self }
    }

    /// Returns the composition.
    pub fn composition(&self) -> Option<&Arc<Composition<'a>>> {
        self.composition.as_ref()
    }

    /// Adds or replaces a variable.
    pub fn set(&mut self, name: &'a str, value: impl Into<Result<Value<'a>, EvalError>>) {
        self.variables.retain(|(other, _)| *other != name);
        self.variables.push((name, value.into()));
    }

    fn get(&self, name: &str) -> Option<&Result<Value<'a>, EvalError>> {
        self.variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }
}

impl<'a> From<Value<'a>> for Result<Value<'a>, EvalError> {
    fn from(value: Value<'a>) -> Self {
        Ok(value)
    }
}

impl Program {
    /// Plans a checked expression.
    ///
    /// # Errors
    /// Returns an error if a constant conversion fails or a constant regular expression is invalid.
    pub fn new(checked: &Checked) -> Result<Program, PlanError> {
        plan::plan(checked)
    }

    /// Returns the names of the variables that it refers to.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.globals.iter().map(String::as_str)
    }

    /// Returns the names of the composed variables that it refers to.
    pub fn composed_variables(&self) -> impl Iterator<Item = &str> {
        self.composed.iter().map(String::as_str)
    }

    /// Evaluates the program, with an optional limit on the cost.
    pub fn eval<'a>(&self, bindings: &Bindings<'a>, limit: Option<u64>) -> Evaluation<'a> {
        let mut evaluator = Evaluator::new(self, bindings, Meter::new(limit));
        let result = evaluator.eval(&self.root);
        Evaluation { result, cost: evaluator.cost() }
    }
}
