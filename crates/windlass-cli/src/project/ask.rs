//! Confirmation before user edits are lost.

use windlass_scaffold::{FilePlan, Question, difference};

use super::Writing;
use crate::{confirm, failure::ErrorWithHint};

/// Resolves the questions of a plan: all accepted, answered by the user, or rejected. A no aborts before any change.
pub(super) fn resolve(plan: &mut FilePlan, writing: Writing) -> anyhow::Result<()> {
    let questions = std::mem::take(&mut plan.questions);
    if questions.is_empty() {
        return Ok(());
    }
    // A dry run shows the result of accepting everything, and says so.
    if !writing.force && !writing.dry_run && !confirm::can_ask() {
        return Err(rejected(&questions));
    }
    let mut agreed_to = Vec::with_capacity(questions.len());
    for question in questions {
        if writing.dry_run && !writing.force {
            eprintln!("{}: {}; confirmation would be required", question.change.path, question.why);
        }
        if !writing.force && !writing.dry_run && !agreed(&question)? {
            return Err(rejected(&[question]));
        }
        agreed_to.push(question);
    }
    agreed_to.into_iter().for_each(|question| plan.accept(question));
    Ok(())
}

fn rejected(questions: &[Question]) -> anyhow::Error {
    let reasons: Vec<String> =
        questions.iter().map(|question| format!("{}: {}", question.change.path, question.why)).collect();
    let message = format!("aborted: edits would be lost:\n  {}", reasons.join("\n  "));
    let hint = "review with --dry-run, save what you need, then use --force to overwrite and delete";
    ErrorWithHint { message, hint: hint.into() }.into()
}

fn agreed(question: &Question) -> anyhow::Result<bool> {
    let change = &question.change;
    let deed = if change.new.is_some() { "overwrite" } else { "remove" };
    loop {
        let answer = confirm::ask(&format!("{}: {}; {deed} it? [y/N, d for the diff]", change.path, question.why))?;
        match answer.as_str() {
            "d" | "D" => eprint!("{}", difference(&change.path, change.old.as_deref(), change.new.as_deref())),
            answer => return Ok(confirm::is_yes(answer)),
        }
    }
}
