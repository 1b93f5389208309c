//! Errors of evaluation.

use std::borrow::Cow;

/// Reason why an evaluation has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression failed; `&&`, `||` and conditions may still absorb it.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// The expression failed where kube-apiserver's own cost accounting fails, and nothing absorbs it.
    #[error("internal error: interface conversion: {0}")]
    Internal(String),
    /// The cost limit was exceeded.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
}

impl EvalError {
    /// Returns an error with a message.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        EvalError::Failed(message.into())
    }

    /// Returns the error of operators and functions that do not accept these values.
    pub fn no_such_overload() -> Self {
        EvalError::Failed(Cow::Borrowed("no such overload"))
    }

    /// Returns whether it ends the evaluation regardless of the surrounding expression.
    pub fn is_final(&self) -> bool {
        matches!(self, EvalError::CostLimitExceeded | EvalError::Internal(_))
    }
}
