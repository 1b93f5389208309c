//! Objects of the project and their conditions.

use std::time::Duration;

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row, Table},
};

use super::{
    super::state::{Focus, Now, State},
    FRAME, Tone, has_focus, names, panel, quiet,
    words::{age, fit},
};
use crate::run::event::{Condition, Resource};

/// Condition types that summarize an object, shown first.
const FIRST: [&str; 5] = ["Ready", "Available", "Succeeded", "Complete", "Healthy"];
/// Parts of condition types for which false is good.
const NEGATIVE: [&str; 8] = ["Fail", "Degraded", "Error", "Stalled", "Pressure", "Unavailable", "Blocked", "Conflict"];

/// Draws the table.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, now: Now) {
    if area.is_empty() {
        return;
    }
    let count = state.resources.len();
    let title = if count == 0 { " objects ".to_owned() } else { format!(" objects {count} ") };
    let mut block = panel(title, has_focus(state, Focus::Resources));
    if count == 0 {
        let text = match state.kinds.is_empty() {
            true => "none yet",
            false => "none yet; apply deploy/samples with --samples",
        };
        frame.render_widget(Paragraph::new(Line::styled(text, quiet())).block(block), area);
        return;
    }
    let height = usize::from(area.height.saturating_sub(FRAME));
    let below = count.saturating_sub(state.top + height);
    if state.top > 0 || below > 0 {
        let more = format!(" {}–{} of {count} ", state.top + 1, (state.top + height).min(count));
        block = block.title_bottom(Line::styled(more, quiet()).right_aligned());
    }
    let shown: Vec<&Resource> = state.resources.values().skip(state.top).take(height).collect();
    let has_namespaces = state.resources.values().any(|object| object.namespace.is_some());
    let widest = |title: &str, text: &dyn Fn(&Resource) -> usize, most: usize| {
        let longest = state.resources.values().map(text).max().unwrap_or_default();
        longest.max(title.len()).min(most)
    };
    let wide = usize::from(area.width) >= 100;
    let kind = widest("KIND", &|object| object.kind.chars().count(), if wide { 24 } else { 14 });
    let namespace = widest(
        "NAMESPACE",
        &|object| object.namespace.as_ref().map_or(0, |namespace| namespace.chars().count()),
        if wide { 24 } else { 12 },
    );
    let name = widest("NAME", &|object| object.name.chars().count(), if wide { 40 } else { 24 });

    let mut widths = vec![Constraint::Length(kind as u16)];
    let mut titles = vec!["KIND"];
    if has_namespaces {
        widths.push(Constraint::Length(namespace as u16));
        titles.push("NAMESPACE");
    }
    widths.extend([Constraint::Length(name as u16), Constraint::Length(5), Constraint::Fill(1), Constraint::Length(5)]);
    titles.extend(["NAME", "GEN", "CONDITIONS", "AGE"]);
    let rows = shown.into_iter().map(|object| {
        let mut cells = vec![Cell::from(Span::styled(fit(&object.kind, kind), quiet()))];
        if has_namespaces {
            cells.push(Cell::from(fit(object.namespace.as_deref().unwrap_or_default(), namespace)));
        }
        let age = object.created.map_or_else(String::new, |created| {
            age(Duration::try_from(now.day.duration_since(created)).unwrap_or_default())
        });
        cells.extend([
            Cell::from(Span::styled(fit(&object.name, name), Style::new().add_modifier(Modifier::BOLD))),
            Cell::from(generation(object)),
            Cell::from(conditions(object)),
            Cell::from(Line::from(age).right_aligned()),
        ]);
        Row::new(cells)
    });
    let titles = titles.into_iter().map(|title| {
        let line = Line::from(title);
        Cell::from(if title == "AGE" { line.right_aligned() } else { line })
    });
    let table = Table::new(rows, widths).header(Row::new(titles).style(names())).column_spacing(2);
    frame.render_widget(table.block(block), area);
}

/// The generation, and the observed one if it differs.
fn generation(object: &Resource) -> Span<'static> {
    match (object.generation, object.observed) {
        (Some(generation), Some(observed)) if observed < generation => {
            Span::styled(format!("{observed}/{generation}"), Tone::Waiting.style())
        }
        (Some(generation), _) => Span::styled(generation.to_string(), quiet()),
        _ => Span::raw(""),
    }
}

/// All conditions; the first also with its reason, and with its message if it indicates a problem.
fn conditions(object: &Resource) -> Line<'static> {
    let mut spans = Vec::new();
    if object.deleting {
        spans.push(Span::styled("◌ deleting  ", Tone::Waiting.style()));
    }
    let mut conditions: Vec<&Condition> = object.conditions.iter().collect();
    conditions.sort_by_key(|condition| FIRST.iter().position(|first| *first == condition.kind).unwrap_or(FIRST.len()));
    for (place, condition) in conditions.iter().enumerate() {
        let tone = tone(&condition.kind, &condition.status);
        spans.push(Span::styled(format!("{} {}", tone.symbol(), condition.kind), tone.style()));
        let is_wrong = tone == Tone::Bad || tone == Tone::Waiting;
        if (place == 0 || is_wrong) && !condition.reason.is_empty() {
            spans.push(Span::styled(format!(" {}", condition.reason), quiet()));
        }
        if is_wrong && !condition.message.is_empty() {
            spans.push(Span::raw(format!(": {}", condition.message)));
        }
        spans.push(Span::raw("  "));
    }
    match (&object.phase, spans.is_empty()) {
        (Some(phase), _) => spans.push(Span::raw(phase.clone())),
        (None, true) => spans.push(Span::styled("–", quiet())),
        (None, false) => {}
    }
    Line::from(spans)
}

/// Severity of a condition, by naming conventions.
fn tone(kind: &str, status: &str) -> Tone {
    let is_negative = NEGATIVE.iter().any(|part| kind.contains(part));
    let is_passing = kind.ends_with("ing");
    match status {
        "True" if is_negative => Tone::Bad,
        "True" if is_passing => Tone::Waiting,
        "True" => Tone::Good,
        "False" if is_negative => Tone::Good,
        "False" if is_passing => Tone::Plain,
        "False" => Tone::Bad,
        _ => Tone::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_severity_of_a_condition_depends_on_its_name() {
        for (kind, status, expected) in [
            ("Ready", "True", Tone::Good),
            ("Ready", "False", Tone::Bad),
            ("Ready", "Unknown", Tone::Waiting),
            ("Degraded", "True", Tone::Bad),
            ("ReplicaFailure", "False", Tone::Good),
            ("MemoryPressure", "False", Tone::Good),
            ("Progressing", "True", Tone::Waiting),
            ("Progressing", "False", Tone::Plain),
        ] {
            assert_eq!(tone(kind, status), expected, "{kind}={status}");
        }
    }
}
