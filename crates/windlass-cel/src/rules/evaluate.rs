//! Values under the names that rules know them by.

use super::PER_CALL_LIMIT;
use super::compiled::{OLD_SELF, SELF};
use crate::interpreter::{Bindings, Evaluation, Program};
use crate::value::{Outcome, Value};

/// What rules see: the value they are about, and what that was before.
pub(super) struct Scope<'a> {
    plain: Bindings<'a>,
    /// With `oldSelf` as an optional.
    optional: Bindings<'a>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(new: Outcome<'a>, old: Option<Outcome<'a>>) -> Self {
        let mut plain = Bindings::new().with(SELF, new);
        let mut optional = plain.clone();
        optional.set(OLD_SELF, old.clone().map_or(Ok(Value::NONE), |old| old.map(Value::some)));
        if let Some(old) = old {
            plain.set(OLD_SELF, old);
        }
        Self { plain, optional }
    }

    /// Evaluates an expression; `optional` if `oldSelf` is an optional for it.
    pub(super) fn evaluate(&self, program: &Program, optional: bool) -> Evaluation<'a> {
        program.eval(if optional { &self.optional } else { &self.plain }, Some(PER_CALL_LIMIT))
    }
}
