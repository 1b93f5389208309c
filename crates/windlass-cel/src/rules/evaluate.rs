//! The variables of rules.

use super::PER_CALL_LIMIT;
use super::compiled::{OLD_SELF, SELF};
use crate::interpreter::{Bindings, Evaluation, Program};
use crate::value::{Outcome, Value};

/// The values that rules can use: the validated value and its old value.
pub(super) struct Scope<'a> {
    plain: Bindings<'a>,
    /// With `oldSelf` as an optional, if a rule requires it.
    optional: Option<Bindings<'a>>,
}

impl<'a> Scope<'a> {
    /// `optional`: whether a rule uses `oldSelf` as an optional.
    pub(super) fn new(new: Outcome<'a>, old: Option<Outcome<'a>>, optional: bool) -> Self {
        let mut plain = Bindings::new().with(SELF, new);
        let optional = optional.then(|| {
            let old = old.clone().map_or(Ok(Value::NONE), |old| old.map(Value::some));
            plain.clone().with(OLD_SELF, old)
        });
        if let Some(old) = old {
            plain.set(OLD_SELF, old);
        }
        Self { plain, optional }
    }

    /// Evaluates an expression; `optional`: whether its `oldSelf` is an optional.
    pub(super) fn evaluate(&self, program: &Program, optional: bool) -> Evaluation<'a> {
        let bindings = self.optional.as_ref().filter(|_| optional).unwrap_or(&self.plain);
        program.eval(bindings, Some(PER_CALL_LIMIT))
    }
}
