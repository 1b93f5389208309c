//! Asking before anything of the user is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context as _;
use windlass_scaffold::{Plan, Question, difference};

use super::Writing;
use crate::failure::Advised;

/// Answers the questions of a plan: all with yes, by the user, or not at all.
pub(super) fn resolve(plan: &mut Plan, writing: Writing) -> anyhow::Result<()> {
    let questions = std::mem::take(&mut plan.questions);
    if questions.is_empty() {
        return Ok(());
    }
    // A dry run shows what would be done if everything were agreed to, and says so.
    let asks = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !writing.force && !writing.dry_run && !asks {
        let reasons: Vec<String> =
            questions.iter().map(|question| format!("{}: {}", question.change.path, question.why)).collect();
        return Err(Advised {
            message: format!("nothing was done, as something would be lost:\n  {}", reasons.join("\n  ")),
            hint: "look at it with --dry-run; --force overwrites and removes".into(),
        }
        .into());
    }
    for question in questions {
        if writing.dry_run && !writing.force {
            eprintln!("{}: {}; this would be asked about", question.change.path, question.why);
        }
        if writing.force || writing.dry_run || agreed(&question)? {
            plan.agree(question);
        }
    }
    Ok(())
}

fn agreed(question: &Question) -> anyhow::Result<bool> {
    let change = &question.change;
    let deed = if change.new.is_some() { "overwrite" } else { "remove" };
    loop {
        eprint!("{}: {}; {deed} it? [y/N/d for the difference] ", change.path, question.why);
        io::stderr().flush().context("cannot ask")?;
        let mut answer = String::new();
        if io::stdin().lock().read_line(&mut answer).context("cannot read the answer")? == 0 {
            return Ok(false);
        }
        match answer.trim() {
            "y" | "Y" | "yes" => return Ok(true),
            "d" | "D" => eprint!("{}", difference(&change.path, change.old.as_deref(), change.new.as_deref())),
            _ => return Ok(false),
        }
    }
}
