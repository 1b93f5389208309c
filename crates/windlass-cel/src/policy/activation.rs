//! Evaluates expressions about one request.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{CompileError, Expression};
use crate::authorizer::{AuthorizationValue, Authorizer, Resource};
use crate::interpreter::{Bindings, ComposedVariable};
use crate::rules::PER_CALL_LIMIT;
use crate::value::{Opaque, Value};

/// The inputs of expressions. Objects are borrowed, never copied.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The object after the request; null for a delete.
    pub object: &'a Json,
    /// The object before the request; null for a create.
    pub old_object: &'a Json,
    /// The request as sent to a webhook, without the objects.
    pub request: &'a Json,
    /// The namespace of the object; null if it has none.
    pub namespace: &'a Json,
    /// The parameters; null if there are none.
    pub params: &'a Json,
    /// The authorizer, and the resource of the request; without one, expressions that use it fail.
    pub authorizer: Option<(&'a Arc<dyn Authorizer>, &'a Resource)>,
}

/// The error of an expression that exceeds the budget of its policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("validation failed due to running out of cost budget, no further validation rules will be run")]
pub struct OutOfBudget;

/// The inputs of expressions, with the variables that are composed of them. A variable is evaluated once.
#[derive(Debug)]
pub struct Activation<'a> {
    bindings: Bindings<'a>,
}

impl<'a> Activation<'a> {
    /// Returns the activation for a request.
    pub fn new(inputs: Inputs<'a>, variables: &'a [ComposedVariable]) -> Self {
        let mut bindings = Bindings::new()
            .with("object", Value::untyped(inputs.object))
            .with("oldObject", Value::untyped(inputs.old_object))
            .with("request", Value::untyped(inputs.request))
            .with("namespaceObject", Value::untyped(inputs.namespace))
            .with("params", Value::untyped(inputs.params));
        if let Some((authorizer, resource)) = inputs.authorizer {
            let value = |value| Value::opaque(Opaque::Authorization(value));
            bindings.set("authorizer", value(AuthorizationValue::of(authorizer.clone())));
            let check = AuthorizationValue::of_resource(authorizer.clone(), resource.clone());
            bindings.set("authorizer.requestResource", value(check));
        }
        if !variables.is_empty() {
            bindings = bindings.composed(variables, PER_CALL_LIMIT);
        }
        Self { bindings }
    }

    /// Evaluates an expression, and subtracts its cost and the cost of variables that it is the first to use from the budget.
    /// The inner error says why the expression has no value.
    ///
    /// # Errors
    /// Returns an error if the budget is exceeded.
    pub fn evaluate(
        &self,
        expression: &Expression,
        budget: &mut i64,
    ) -> Result<Result<Value<'a>, String>, OutOfBudget> {
        let evaluation = expression.program.eval(&self.bindings, Some(PER_CALL_LIMIT));
        let composed = self.bindings.composition().map_or(0, |composition| composition.take_cost());
        let cost = evaluation.cost.saturating_add(composed);
        *budget = budget.saturating_sub(i64::try_from(cost).unwrap_or(i64::MAX));
        if *budget < 0 {
            return Err(OutOfBudget);
        }
        let failed = |error| format!("expression '{}' resulted in error: {error}", expression.text);
        Ok(evaluation.result.map_err(failed))
    }

    /// Returns whether all conditions hold. A condition that does not hold decides, even if others fail.
    ///
    /// # Errors
    /// Returns the failures of conditions, or that the budget is exceeded.
    pub fn all_hold(&self, conditions: &[Result<Expression, CompileError>], budget: &mut i64) -> Result<bool, String> {
        let mut failures = Vec::new();
        for condition in conditions {
            let outcome = match condition {
                Ok(condition) => self.evaluate(condition, budget).map_err(|error| error.to_string())?,
                Err(error) => Err(format!("compilation error: {error}")),
            };
            match outcome {
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(why) => failures.push(why),
            }
        }
        match &mut failures[..] {
            [] => Ok(true),
            [one] => Err(std::mem::take(one)),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}
