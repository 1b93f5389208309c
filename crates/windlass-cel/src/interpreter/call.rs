//! Function calls and their costs.

use super::evaluate::{Evaluator, Local, is_final};
use super::node::{CallNode, Node};
use crate::library::{Call, regex};
use crate::runtime_cost::CallCost;
use crate::value::{EvalError, Outcome, Value};

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(super) fn call(&mut self, call: &'p CallNode) -> Outcome<'a> {
        match &call.arguments[..] {
            _ if call.early_exit => self.call_in_order(call),
            [argument] => {
                let argument = match self.argument(call, argument) {
                    Err(error) if call.lenient && !error.is_final() => {
                        self.meter.charge(1)?;
                        return Ok(Value::Bool(true));
                    }
                    argument => argument,
                };
                self.finish(call, [argument])
            }
            [left, right] => {
                let left = self.argument(call, left);
                if is_final(&left) {
                    return left;
                }
                let right = self.eval(right);
                self.finish(call, [left, right])
            }
            _ => self.call_in_order(call),
        }
    }

    /// Evaluates the first argument: an accumulator that only this call needs is moved, so that it can grow in place.
    fn argument(&mut self, call: &CallNode, node: &'p Node) -> Outcome<'a> {
        let Some(place) = call.consumes else { return self.eval(node) };
        self.local(place)?;
        self.meter.charge(1)?;
        match std::mem::replace(&mut self.locals[place], Local::Unset) {
            Local::Set(outcome) => outcome,
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// Completes a call whose arguments have all been evaluated: it is charged even if one of them failed.
    fn finish<const N: usize>(&mut self, call: &'p CallNode, arguments: [Outcome<'a>; N]) -> Outcome<'a> {
        let mut failure = None;
        let mut values = [const { Value::Null }; N];
        for (value, argument) in values.iter_mut().zip(arguments) {
            match argument {
                Ok(argument) => *value = argument,
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        self.invoke(call, &mut values, failure)
    }

    fn call_in_order(&mut self, call: &'p CallNode) -> Outcome<'a> {
        let mut values = Vec::with_capacity(call.arguments.len());
        let mut failure = None;
        for (index, argument) in call.arguments.iter().enumerate() {
            let value = if index == 0 { self.argument(call, argument) } else { self.eval(argument) };
            match value {
                Ok(value) => values.push(value),
                Err(error) if error.is_final() || index + 1 < call.arguments.len() => return Err(error),
                Err(error) => {
                    values.push(Value::Null);
                    failure = Some(error);
                }
            }
        }
        self.invoke(call, &mut values, failure)
    }

    fn invoke(&mut self, call: &'p CallNode, arguments: &mut [Value<'a>], failure: Option<EvalError>) -> Outcome<'a> {
        if let Some(error) = call.cost.accounting_failure(arguments, failure.is_some()) {
            return Err(error);
        }
        // A function may consume its arguments, and most costs do not depend on its result.
        let known = (!call.cost.needs_result()).then(|| call.cost.cost(arguments, None));
        match (&call.regex, &call.cost, &*arguments) {
            (Some(regex), CallCost::Regex, _) if regex::cost_factor(regex) > 1 => {
                let cost = known.unwrap_or_default().saturating_mul(regex::cost_factor(regex) - 1);
                self.meter.charge(cost)?;
            }
            (None, CallCost::Regex, [_, Value::String(pattern), ..]) => {
                self.meter.charge(regex::compile_cost(pattern))?
            }
            _ => {}
        }
        let outcome = match failure {
            Some(error) => Err(error),
            None => {
                let overload = match call.guards.iter().find(|guard| guard.admits(arguments)) {
                    Some(guard) => guard.overload,
                    None if call.guards.is_empty() => call.overload,
                    None => return self.mismatch(call, arguments, known),
                };
                let made = Call { function: call.function.name, overload, arguments: &mut *arguments };
                match &call.regex {
                    Some(pattern) => regex::call(made, &pattern.regex),
                    None => (call.function.implementation)(made),
                }
            }
        };
        if let (Err(EvalError::CostLimitExceeded), [Value::Int(length)]) = (&outcome, &*arguments) {
            self.meter.charge(length.unsigned_abs())?;
        }
        let cost = known.unwrap_or_else(|| call.cost.cost(arguments, outcome.as_ref().ok()));
        self.charged(cost, outcome)
    }

    /// Fails a call that matches no overload.
    fn mismatch(&mut self, call: &CallNode, arguments: &mut [Value<'a>], cost: Option<u64>) -> Outcome<'a> {
        let cost = cost.unwrap_or_else(|| call.cost.cost(arguments, None));
        let failed = Call { function: call.function.name, overload: call.overload, arguments };
        self.charged(cost, Err(failed.mismatch()))
    }

    /// Evaluates `==` and `!=`.
    pub(super) fn equal(&mut self, negated: bool, operands: &'p [Node; 2]) -> Outcome<'a> {
        let left = self.eval(&operands[0]);
        if is_final(&left) {
            return left;
        }
        let right = self.eval(&operands[1]);
        if is_final(&right) {
            return right;
        }
        let rule = if negated { CallCost::Smaller } else { CallCost::Equal };
        let outcome = match (&left, &right) {
            (Err(error), _) | (_, Err(error)) => Err(error.clone()),
            (Ok(left), Ok(right)) => match left.equals(right) {
                equal if negated => Ok(Value::Bool(equal != Ok(true))),
                equal => equal.map(Value::Bool),
            },
        };
        let cost = rule.cost(&[left.unwrap_or(Value::Null), right.unwrap_or(Value::Null)], None);
        self.charged(cost, outcome)
    }
}
