//! Why an evaluation has no value.

use std::borrow::Cow;

/// Why an evaluation has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression failed; `&&`, `||` and conditions may still absorb it.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// The expression failed where the real server's own accounting breaks down, and nothing absorbs it.
    #[error("internal error: interface conversion: {0}")]
    Internal(String),
    /// It cost more than allowed.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
}

impl EvalError {
    /// A failure with a message.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        EvalError::Failed(message.into())
    }

    /// The failure of operators and functions that do not take such values.
    pub fn no_such_overload() -> Self {
        EvalError::Failed(Cow::Borrowed("no such overload"))
    }

    /// Whether it ends the evaluation whatever stands around it.
    pub fn is_final(&self) -> bool {
        matches!(self, EvalError::CostLimitExceeded | EvalError::Internal(_))
    }
}
