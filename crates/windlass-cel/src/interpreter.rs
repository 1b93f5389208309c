//! Evaluation: a checked expression is planned once and run over any number of objects.
//!
//! A [`Program`] holds nothing of an evaluation and can be shared by threads. An evaluation is bounded by its cost: it
//! ends as soon as it has cost more than it may.

use crate::checker::Checked;
use crate::runtime_cost::Meter;
use crate::value::{EvalError, Value};

mod attribute;
mod call;
mod evaluate;
mod fold;
mod guard;
mod node;
mod plan;
#[cfg(test)]
mod tests;

use evaluate::Evaluator;
use node::Node;

/// An expression that is ready to run.
#[derive(Debug)]
pub struct Program {
    root: Node,
    /// The names of the variables it refers to.
    globals: Vec<String>,
    /// How many places the variables of its comprehensions take.
    locals: usize,
}

/// Why an expression that is well typed cannot be run: a constant in it is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) String);

/// The variables of an evaluation. A variable's value may itself be a failure, which is told when it is asked for.
#[derive(Debug, Clone, Default)]
pub struct Bindings<'a> {
    variables: Vec<(&'a str, Result<Value<'a>, EvalError>)>,
}

/// How an evaluation ended.
#[derive(Debug, Clone)]
pub struct Evaluation<'a> {
    /// What it gives.
    pub result: Result<Value<'a>, EvalError>,
    /// What it cost, also if it failed.
    pub cost: u64,
}

impl<'a> Bindings<'a> {
    /// No variables.
    pub fn new() -> Self {
        Bindings::default()
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: impl Into<Result<Value<'a>, EvalError>>) -> Self {
        self.set(name, value);
        self
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
    /// If a constant conversion in it fails, or a constant regular expression is none.
    pub fn new(checked: &Checked) -> Result<Program, PlanError> {
        plan::plan(checked)
    }

    /// Runs it, at no more than the cost that may be spent.
    pub fn eval<'a>(&self, bindings: &Bindings<'a>, limit: Option<u64>) -> Evaluation<'a> {
        let mut evaluator = Evaluator::new(self, bindings, Meter::new(limit));
        let result = evaluator.eval(&self.root);
        Evaluation { result, cost: evaluator.cost() }
    }
}
