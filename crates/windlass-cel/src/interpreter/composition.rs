//! Composed variables: `variables.name` in expressions of admission policies.
//!
//! A variable is evaluated when an expression first uses it, and may use the variables before it. Its cost is not part
//! of the expression's: the caller takes it from [`Composition::take_cost`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Bindings, Program};
use crate::value::{EvalError, Outcome};

/// The type of the variable `variables`.
pub const VARIABLES: &str = "kubernetes.variables";

/// A variable that is composed of others.
#[derive(Debug)]
pub struct ComposedVariable {
    /// The name.
    pub name: String,
    /// The program, or why the expression does not compile.
    pub program: Result<Program, String>,
}

/// The composed variables of an evaluation.
pub struct Composition<'a> {
    variables: &'a [ComposedVariable],
    inputs: Vec<(&'a str, Outcome<'a>)>,
    values: Vec<Mutex<State<'a>>>,
    cost: AtomicU64,
    limit: u64,
}

enum State<'a> {
    Unused,
    /// Being evaluated. A variable that uses itself finds this.
    Running,
    Known(Outcome<'a>),
}

impl<'a> Composition<'a> {
    pub(super) fn new(variables: &'a [ComposedVariable], inputs: Vec<(&'a str, Outcome<'a>)>, limit: u64) -> Self {
        let values = variables.iter().map(|_| Mutex::new(State::Unused)).collect();
        Self { variables, inputs, values, cost: AtomicU64::new(0), limit }
    }

    /// Returns the value of a variable. Of several with the same name, the last one counts.
    pub(super) fn value(self: Arc<Self>, name: &str) -> Outcome<'a> {
        let Some(index) = self.variables.iter().rposition(|variable| variable.name == name) else {
            return Err(EvalError::new(format!("no such key: {name}")));
        };
        {
            let mut state = self.state(index);
            match &*state {
                State::Known(value) => return value.clone(),
                State::Running => return Err(EvalError::new(format!("composited variable {name:?} uses itself"))),
                State::Unused => *state = State::Running,
            }
        }
        let value = self.evaluate(&self.variables[index]);
        *self.state(index) = State::Known(value.clone());
        value
    }

    fn evaluate(self: &Arc<Self>, variable: &ComposedVariable) -> Outcome<'a> {
        let name = &variable.name;
        let failed = |why: &str, error: String| EvalError::new(format!("composited variable {name:?} {why}: {error}"));
        let program = variable.program.as_ref().map_err(|error| failed("fails to compile", error.clone()))?;
        let bindings = Bindings { variables: self.inputs.clone(), composition: Some(self.clone()) };
        let evaluation = program.eval(&bindings, Some(self.limit));
        self.cost.fetch_add(evaluation.cost, Ordering::Relaxed);
        evaluation.result.map_err(|error| failed("fails to evaluate", error.to_string()))
    }

    fn state(&self, index: usize) -> MutexGuard<'_, State<'a>> {
        self.values[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cost of the variables that were evaluated since the last call.
    pub fn take_cost(&self) -> u64 {
        self.cost.swap(0, Ordering::Relaxed)
    }
}

impl fmt::Debug for Composition<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Composition").field("variables", &self.variables).finish_non_exhaustive()
    }
}
