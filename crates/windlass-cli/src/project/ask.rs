//! Asking before anything of the user is lost.

use windlass_scaffold::{Plan, Question, difference};

use super::Writing;
use crate::{confirm, failure::Advised};

/// Answers the questions of a plan: all with yes, by the user, or not at all. A no stops before anything is done.
pub(super) fn resolve(plan: &mut Plan, writing: Writing) -> anyhow::Result<()> {
    let questions = std::mem::take(&mut plan.questions);
    if questions.is_empty() {
        return Ok(());
    }
    // A dry run shows what would be done if everything were agreed to, and says so.
    if !writing.force && !writing.dry_run && !confirm::can_ask() {
        return Err(refused(&questions));
    }
    let mut agreed_to = Vec::with_capacity(questions.len());
    for question in questions {
        if writing.dry_run && !writing.force {
            eprintln!("{}: {}; this would be asked about", question.change.path, question.why);
        }
        if !writing.force && !writing.dry_run && !agreed(&question)? {
            return Err(refused(&[question]));
        }
        agreed_to.push(question);
    }
    agreed_to.into_iter().for_each(|question| plan.agree(question));
    Ok(())
}

fn refused(questions: &[Question]) -> anyhow::Error {
    let reasons: Vec<String> =
        questions.iter().map(|question| format!("{}: {}", question.change.path, question.why)).collect();
    let message = format!("nothing was done, as something would be lost:\n  {}", reasons.join("\n  "));
    let hint = "look at it with --dry-run; keep what you need elsewhere, then --force overwrites and removes";
    Advised { message, hint: hint.into() }.into()
}

fn agreed(question: &Question) -> anyhow::Result<bool> {
    let change = &question.change;
    let deed = if change.new.is_some() { "overwrite" } else { "remove" };
    loop {
        let answer =
            confirm::ask(&format!("{}: {}; {deed} it? [y/N/d for the difference]", change.path, question.why))?;
        match answer.as_str() {
            "d" | "D" => eprint!("{}", difference(&change.path, change.old.as_deref(), change.new.as_deref())),
            answer => return Ok(confirm::is_yes(answer)),
        }
    }
}
