//! Asking before something is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context as _;

use crate::failure::Advised;

/// Asks, unless it was said already; without a terminal nobody can be asked, and that is an error.
pub(crate) fn confirm(question: &str, force: bool) -> anyhow::Result<()> {
    if force {
        return Ok(());
    }
    let refused = |message: String| Err(Advised { message, hint: "--force does it without asking".into() }.into());
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return refused(format!("nothing was done: {question}"));
    }
    eprint!("{question}; go on? [y/N] ");
    io::stderr().flush().context("cannot ask")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    match matches!(answer.trim(), "y" | "Y" | "yes") {
        true => Ok(()),
        false => refused("nothing was done".to_owned()),
    }
}
