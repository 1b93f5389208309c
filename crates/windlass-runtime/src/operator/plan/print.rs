//! Plans as text.

use std::fmt::Write as _;

use super::{Plan, PlannedAction, PlannedChange};

/// Returns a plan as text: a line per object, and one per changed field.
pub(super) fn text(plan: &Plan) -> String {
    let mut text = String::new();
    for change in &plan.changes {
        let _ = writeln!(text, "{} {}", symbol(&change.action), head(change));
        // A deletion says enough.
        for field in change.fields.iter().filter(|_| change.action != PlannedAction::Delete) {
            let _ = writeln!(text, "    {field}");
        }
    }
    for problem in &plan.problems {
        let object = problem.object.as_deref().unwrap_or("all objects");
        let _ = writeln!(text, "! {object} (controller {}): {}", problem.controller, problem.message);
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let count =
        |action: fn(&PlannedAction) -> bool| plan.changes.iter().filter(|change| action(&change.action)).count();
    let _ = writeln!(
        text,
        "{} reconciled: {} to create, {} to update, {} to delete, {} to call, {} failed",
        plan.reconciled,
        count(|action| *action == PlannedAction::Create),
        count(|action| *action == PlannedAction::Update),
        count(|action| *action == PlannedAction::Delete),
        count(|action| matches!(action, PlannedAction::Call(_))),
        plan.problems.len(),
    );
    text
}

fn symbol(action: &PlannedAction) -> char {
    match action {
        PlannedAction::Create => '+',
        PlannedAction::Update => '~',
        PlannedAction::Delete => '-',
        PlannedAction::Call(_) => '>',
    }
}

fn head(change: &PlannedChange) -> String {
    let mut head = format!("{} ", change.kind);
    if let Some(namespace) = &change.namespace {
        head.push_str(&format!("{namespace}/"));
    }
    head.push_str(&change.name);
    if let PlannedAction::Call(subresource) = &change.action {
        head.push_str(&format!(" {subresource}"));
    }
    if let Some(controller) = &change.controller {
        head.push_str(&format!(" (controller {controller})"));
    }
    head
}
