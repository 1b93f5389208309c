//! Asking before something is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context as _;

use crate::failure::Advised;

/// Whether there is somebody to ask.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks, and answers what was typed; nothing if the input has ended.
pub(crate) fn ask(question: &str) -> anyhow::Result<String> {
    eprint!("{question} ");
    io::stderr().flush().context("cannot ask")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(answer.trim().to_owned())
}

/// Whether an answer is a yes.
pub(crate) fn is_yes(answer: &str) -> bool {
    matches!(answer, "y" | "Y" | "yes")
}

/// Asks, unless it was said already; without a terminal nobody can be asked, and that is an error.
pub(crate) fn confirm(question: &str, force: bool) -> anyhow::Result<()> {
    if force {
        return Ok(());
    }
    let refused = |message: String| Err(Advised { message, hint: "--force does it without asking".into() }.into());
    if !can_ask() {
        return refused(format!("nothing was done: {question}"));
    }
    match is_yes(&ask(&format!("{question}; go on? [y/N]"))?) {
        true => Ok(()),
        false => refused("nothing was done".to_owned()),
    }
}
