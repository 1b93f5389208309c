//! Comprehensions.

use super::evaluate::{Evaluator, Local};
use super::node::{Fold, Node};
use crate::value::{EvalError, Outcome, Value};

/// Whether a comprehension continues.
enum Next {
    Continue,
    Stop,
}

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(super) fn fold(&mut self, fold: &'p Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        self.locals[fold.accumulator] = Local::Pending(&fold.init);
        match &range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let Some(item) = list.get(index) else { break };
                    let first = if fold.second.is_some() { Ok(Value::Int(index as i64)) } else { Ok(Value::Null) };
                    let (first, second) = if fold.second.is_some() { (first, Some(item)) } else { (item, None) };
                    if let Next::Stop = self.iterate(fold, first, second)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let value = fold.second.map(|_| match map.find(&key) {
                        Ok(Some(value)) => Ok(value),
                        Ok(None) => Err(EvalError::new(format!("no such key: {}", key.display()))),
                        Err(error) => Err(error),
                    });
                    if let Next::Stop = self.iterate(fold, Ok(key), value)? {
                        break;
                    }
                }
            }
            other if fold.second.is_some() => {
                return Err(EvalError::new(format!("unsupported comprehension range type: {}", other.go_type())));
            }
            other => return Err(EvalError::new(format!("got '{}', expected iterable type", other.go_type()))),
        }
        self.eval(&fold.result)
    }

    fn iterate(&mut self, fold: &'p Fold, first: Outcome<'a>, second: Option<Outcome<'a>>) -> Result<Next, EvalError> {
        self.locals[fold.variable] = Local::Set(first);
        if let (Some(place), Some(value)) = (fold.second, second) {
            self.locals[place] = Local::Set(value);
        }
        match &fold.condition {
            Node::Constant(Value::Bool(true)) => {}
            condition => match self.eval(condition) {
                Ok(Value::Bool(false)) => return Ok(Next::Stop),
                Err(error) if error.is_final() => return Err(error),
                // A failed condition does not stop the comprehension: the step may still absorb the error.
                _ => {}
            },
        }
        let value = self.eval(&fold.step);
        if let Err(error) = &value
            && error.is_final()
        {
            return Err(error.clone());
        }
        self.locals[fold.accumulator] = Local::Set(value);
        Ok(Next::Continue)
    }
}
