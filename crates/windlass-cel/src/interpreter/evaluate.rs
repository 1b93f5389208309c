//! Evaluates the steps of a program.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{Element, Node, StructNode};
use super::{Bindings, Program};
use crate::runtime_cost::{LIST, MAP, Meter, STRUCT};
use crate::value::{EvalError, Key, Map, Outcome, Struct, Value};

/// An evaluation in progress.
pub(super) struct Evaluator<'p, 'a> {
    pub(super) program: &'p Program,
    pub(super) bindings: &'p Bindings<'a>,
    pub(super) locals: Vec<Local<'p, 'a>>,
    pub(super) meter: Meter,
}

/// A variable of a comprehension.
#[derive(Debug)]
pub(super) enum Local<'p, 'a> {
    /// Not in scope.
    Unset,
    /// An accumulator whose initial value has not been used yet.
    Pending(&'p Node),
    /// A value, or the reason why it has none.
    Set(Outcome<'a>),
}

/// Returns whether an error ends the evaluation regardless of the surrounding expression.
pub(super) fn is_final(outcome: &Outcome<'_>) -> bool {
    outcome.as_ref().is_err_and(EvalError::is_final)
}

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(super) fn new(program: &'p Program, bindings: &'p Bindings<'a>, meter: Meter) -> Self {
        let locals = (0..program.locals).map(|_| Local::Unset).collect();
        Evaluator { program, bindings, locals, meter }
    }

    pub(super) fn cost(&self) -> u64 {
        self.meter.cost()
    }

    /// Evaluates a step.
    pub(super) fn eval(&mut self, node: &'p Node) -> Outcome<'a> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.eval_attribute(attribute),
            Node::And(terms) => self.junction(terms, false),
            Node::Or(terms) => self.junction(terms, true),
            Node::Equal { negated, operands } => self.equal(*negated, operands),
            Node::Call(call) => self.call(call),
            Node::Member { element, set } => {
                let element = self.eval(element)?;
                let set: &std::collections::BTreeSet<Key<'_>> = set;
                Ok(Value::Bool(Key::from_value(&element).is_some_and(|key| set.contains(&key))))
            }
            Node::OrElse { unwrap, operands } => match self.eval(&operands[0])? {
                Value::Optional(Some(value)) if *unwrap => (*value).clone().or_lost(),
                Value::Optional(None) => self.eval(&operands[1]),
                other => Ok(other),
            },
            Node::List(elements) => {
                let list = self.list(elements);
                self.charged(LIST, list)
            }
            Node::Map(entries) => {
                let map = self.map(entries);
                self.charged(MAP, map)
            }
            Node::Struct(node) => {
                let value = self.structure(node);
                self.charged(STRUCT, value)
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// Charges for a completed step. A cancelled step is not charged.
    pub(super) fn charged(&mut self, cost: u64, outcome: Outcome<'a>) -> Outcome<'a> {
        if is_final(&outcome) {
            return outcome;
        }
        self.meter.charge(cost)?;
        outcome
    }

    /// Evaluates `&&` and `||`: one term may decide regardless of the others.
    fn junction(&mut self, terms: &'p [Node], decisive: bool) -> Outcome<'a> {
        let mut failure = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or_else(|| Some(EvalError::no_such_overload())),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn list(&mut self, elements: &'p [Element]) -> Outcome<'a> {
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            match self.eval(&element.value)? {
                value if !element.optional => items.push(value),
                Value::Optional(None) => {}
                Value::Optional(Some(value)) => items.push((*value).clone()),
                value => {
                    return Err(EvalError::new(format!(
                        "cannot initialize optional list element from non-optional value {}",
                        value.display()
                    )));
                }
            }
        }
        Ok(Value::list(items))
    }

    fn map(&mut self, entries: &'p [(Node, Element)]) -> Outcome<'a> {
        let mut map = BTreeMap::new();
        for (key, element) in entries {
            let shown = self.eval(key)?;
            let value = self.eval(&element.value)?;
            let Some(key) = Key::from_value(&shown) else {
                return Err(EvalError::new(format!("unsupported map key type: {}", shown.type_name())));
            };
            match value {
                value if !element.optional => drop(map.insert(key, value)),
                Value::Optional(None) => drop(map.remove(&key)),
                Value::Optional(Some(value)) => drop(map.insert(key, (*value).clone())),
                value => {
                    return Err(EvalError::new(format!(
                        "cannot initialize optional entry '{}' from non-optional value {}",
                        shown.display(),
                        value.display()
                    )));
                }
            }
        }
        Ok(Value::Map(Map::from(map)))
    }

    fn structure(&mut self, node: &'p StructNode) -> Outcome<'a> {
        let mut value = Struct { name: node.name.clone(), fields: BTreeMap::new() };
        for (field, element) in &node.fields {
            match self.eval(&element.value)? {
                given if !element.optional => value.set(field, given)?,
                Value::Optional(None) => {}
                Value::Optional(Some(given)) => value.set(field, (*given).clone())?,
                given => {
                    return Err(EvalError::new(format!(
                        "cannot initialize optional entry '{field}' from non-optional value {}",
                        given.display()
                    )));
                }
            }
        }
        Ok(Value::Struct(Arc::new(value)))
    }
}
