//! Confirmation before data is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context as _;

use crate::failure::ErrorWithHint;

/// Returns whether the user can be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks, and returns the answer; empty at the end of input.
pub(crate) fn ask(question: &str) -> anyhow::Result<String> {
    eprint!("{question} ");
    io::stderr().flush().context("failed to write to standard error")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("failed to read the answer")?;
    Ok(answer.trim().to_owned())
}

/// Returns whether the answer is yes.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer, "y" | "Y" | "yes")
}

/// Asks for confirmation unless forced; fails without a terminal.
pub(crate) fn confirm(question: &str, force: bool) -> anyhow::Result<()> {
    if force {
        return Ok(());
    }
    let aborted =
        |message: String| Err(ErrorWithHint { message, hint: "use --force to skip the confirmation".into() }.into());
    if !can_ask() {
        return aborted(format!("aborted: {question}"));
    }
    match is_yes(&ask(&format!("{question}; continue? [y/N]"))?) {
        true => Ok(()),
        false => aborted("aborted".to_owned()),
    }
}
