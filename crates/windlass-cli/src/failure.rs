//! Error reports with hints.

use std::{borrow::Cow, process::ExitCode};

use windlass_builtins::upgrade::UpgradeError;
use windlass_plane::PlaneError;
use windlass_scaffold::ScaffoldError;

/// Exit code if the data of a running control plane was lost or can no longer be written.
const STORAGE_FAILURE: u8 = 3;

/// An error with a hint, for cases where the error itself cannot know what the user should do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ErrorWithHint {
    /// Description of the failure.
    pub(crate) message: String,
    /// Advice for the user.
    pub(crate) hint: Cow<'static, str>,
}

/// A failure that has already been reported: it only sets the exit code.
#[derive(Debug, thiserror::Error)]
#[error("problems were reported")]
pub(crate) struct AlreadyReported;

/// The exit code of another program, which has reported everything.
#[derive(Debug, thiserror::Error)]
#[error("the program ended with exit code {0}")]
pub(crate) struct ExitWith(pub(crate) u8);

/// A signal arrived before the work was done.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Prints the error with its causes, then a hint if there is one.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<AlreadyReported>() {
        return ExitCode::FAILURE;
    }
    if let Some(ExitWith(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if error.is::<Interrupted>() {
        return ExitCode::from(130);
    }
    eprintln!("error: {error:#}");
    if let Some(hint) = hint(error) {
        eprintln!("hint: {hint}");
    }
    match error.downcast_ref::<PlaneError>() {
        Some(error) if error.is_storage_failure() => ExitCode::from(STORAGE_FAILURE),
        _ => ExitCode::FAILURE,
    }
}

/// Returns the hint of the first cause that has one.
pub(crate) fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        cause
            .downcast_ref::<PlaneError>()
            .and_then(PlaneError::hint)
            .or_else(|| cause.downcast_ref::<ErrorWithHint>().map(|advised| advised.hint.clone().into_owned()))
            .or_else(|| cause.downcast_ref::<ScaffoldError>().map(ScaffoldError::hint))
            .or_else(|| cause.downcast_ref::<UpgradeError>().map(|error| error.hint().to_owned()))
    })
}
