//! Attributes: names and selections from them.

use super::evaluate::{Evaluator, Local, is_final};
use super::node::{Attribute, Qualifier, QualifierKey, Root};
use crate::value::{EvalError, Key, Outcome, Value};

impl<'p, 'a> Evaluator<'p, 'a> {
    /// Evaluates an attribute that is a step of its own.
    pub(super) fn eval_attribute(&mut self, attribute: &'p Attribute) -> Outcome<'a> {
        let outcome = self.resolve(attribute);
        if is_final(&outcome) {
            return outcome;
        }
        match (&attribute.root, attribute.test) {
            // A condition itself costs nothing, and neither does testing for the presence of a field.
            (Root::Conditional { .. }, false) => {}
            (Root::Conditional { .. }, true) => self.meter.refund(1),
            (_, true) => {}
            (_, false) => self.meter.charge(1)?,
        }
        match outcome {
            Ok(Value::Optional(value)) if attribute.test => Ok(Value::Bool(value.is_some())),
            outcome => outcome,
        }
    }

    /// Returns the value of an attribute, charging only for its qualifiers.
    pub(super) fn resolve(&mut self, attribute: &'p Attribute) -> Outcome<'a> {
        let value = match &attribute.root {
            Root::Global(index) => self.global(*index)?,
            Root::Local(place) => match self.local(*place)? {
                Local::Set(outcome) => outcome.clone()?,
                _ => return Err(EvalError::no_such_overload()),
            },
            Root::Composed(name) => {
                let composition = self.bindings.composition().cloned();
                let value = match composition {
                    Some(composition) => composition.value(name),
                    None => Err(EvalError::new(format!("no such attribute(s): variables.{name}"))),
                };
                self.charged(1, value)?
            }
            Root::Value(node) => self.eval(node)?,
            Root::Conditional { condition, branches } => match self.eval(condition)? {
                Value::Bool(true) => return self.resolve(&branches[0]),
                Value::Bool(false) => return self.resolve(&branches[1]),
                _ => return Err(EvalError::no_such_overload()),
            },
        };
        self.qualify_all(value, &attribute.qualifiers)
    }

    fn global(&self, index: usize) -> Outcome<'a> {
        let name = &self.program.globals[index];
        match self.bindings.get(name) {
            Some(value) => value.clone(),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// Returns a variable of a comprehension. An accumulator is initialized when it is first used.
    pub(super) fn local(&mut self, place: usize) -> Result<&Local<'p, 'a>, EvalError> {
        if let Local::Pending(init) = self.locals[place] {
            let value = self.eval(init);
            if let Err(error) = &value
                && error.is_final()
            {
                return Err(error.clone());
            }
            self.locals[place] = Local::Set(value);
        }
        Ok(&self.locals[place])
    }

    fn qualify_all(&mut self, value: Value<'a>, qualifiers: &'p [Qualifier]) -> Outcome<'a> {
        // The value inside an optional loses its schema here.
        let (mut value, mut optional) = match value {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(value)) => (value.without_schema(), true),
            value => (value, false),
        };
        for qualifier in qualifiers {
            optional |= qualifier.optional;
            match self.qualify(&value, qualifier, optional)? {
                Some(selected) => value = selected,
                None => return Ok(Value::NONE),
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// Selects from a value; returns `None` if the selection is optional and the value absent.
    fn qualify(
        &mut self,
        value: &Value<'a>,
        qualifier: &'p Qualifier,
        optional: bool,
    ) -> Result<Option<Value<'a>>, EvalError> {
        let selected = match &qualifier.key {
            QualifierKey::Constant(key) => select(value, key, optional || qualifier.test),
            QualifierKey::Computed(attribute) => match self.resolve(attribute) {
                Ok(key) if Key::from_value(&key).is_none() => {
                    Err(EvalError::new(format!("invalid qualifier type: {}", key.go_type())))
                }
                Ok(key) => select(value, &key, optional || qualifier.test),
                Err(error) => Err(error),
            },
        };
        if selected.as_ref().is_err_and(EvalError::is_final) {
            return selected;
        }
        // An optional selection of an absent value, or one that fails, is free.
        if !optional || matches!(selected, Ok(Some(_))) {
            self.meter.charge(1)?;
        }
        match selected {
            Ok(found) if qualifier.test && !optional => Ok(Some(Value::Bool(found.is_some()))),
            selected => selected,
        }
    }
}

/// Looks up a field, key or index.
fn select<'a>(value: &Value<'a>, key: &Value<'a>, presence: bool) -> Result<Option<Value<'a>>, EvalError> {
    let missing_key = || EvalError::new(format!("no such key: {}", key.display()));
    match value {
        Value::Map(map) => match (map.find(key)?, presence) {
            (Some(found), _) => Ok(Some(found)),
            (None, true) => Ok(None),
            (None, false) => Err(missing_key()),
        },
        Value::List(list) => {
            let index = index(key)?;
            match usize::try_from(index).ok().and_then(|index| list.get(index)) {
                Some(_) if list.is_typed() && !matches!(key, Value::Int(_)) => {
                    Err(EvalError::new(format!("unsupported index: {}", key.display())))
                }
                Some(item) => item.map(Some),
                None if presence => Ok(None),
                None => Err(EvalError::new(format!("index out of bounds: {}", key.display()))),
            }
        }
        Value::Lost(value) => Err(value.lost()),
        _ if presence => Ok(None),
        _ => Err(missing_key()),
    }
}

/// Converts an index to an integer.
fn index(key: &Value<'_>) -> Result<i64, EvalError> {
    let whole = match key {
        Value::Int(index) => Some(*index),
        Value::Uint(index) => i64::try_from(*index).ok(),
        Value::Double(index) => (index.fract() == 0.0 && index.abs() < 9.2e18).then_some(*index as i64),
        _ => return Err(EvalError::new(format!("unsupported index type '{}' in list", key.type_name()))),
    };
    whole.ok_or_else(|| EvalError::new(format!("unsupported index value {} in list", key.display())))
}
