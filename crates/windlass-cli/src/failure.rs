//! Telling a person what went wrong and what to do about it.

use std::{borrow::Cow, process::ExitCode};

use windlass_builtins::upgrade::UpgradeError;
use windlass_plane::PlaneError;
use windlass_scaffold::ScaffoldError;

/// A failure with advice, where the error itself cannot know what the user may do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Advised {
    /// What went wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Cow<'static, str>,
}

/// A failure about which all has been said: it is only for the exit code.
#[derive(Debug, thiserror::Error)]
#[error("there were problems")]
pub(crate) struct Told;

/// A signal came before the work was done.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Prints the error with its causes, then a hint if there is one.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<Told>() {
        return ExitCode::FAILURE;
    }
    if error.is::<Interrupted>() {
        return ExitCode::from(130);
    }
    eprintln!("error: {error:#}");
    if let Some(hint) = hint(error) {
        eprintln!("hint: {hint}");
    }
    ExitCode::FAILURE
}

/// What to do about it, if one of its causes knows.
pub(crate) fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        cause
            .downcast_ref::<PlaneError>()
            .and_then(PlaneError::hint)
            .or_else(|| cause.downcast_ref::<Advised>().map(|advised| advised.hint.clone().into_owned()))
            .or_else(|| cause.downcast_ref::<ScaffoldError>().map(ScaffoldError::hint))
            .or_else(|| cause.downcast_ref::<UpgradeError>().map(|error| error.hint().to_owned()))
    })
}
