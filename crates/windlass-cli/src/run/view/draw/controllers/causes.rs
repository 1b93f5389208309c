//! Causes of reconciles.

use std::collections::BTreeSet;

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Cell, Row, Table},
};
use windlass_schema::sorting::Gather as _;

use super::super::{
    super::state::State,
    FRAME, names, panel, quiet,
    words::{count, fit},
};

/// The causes in the order of their columns.
const CAUSES: [&str; 7] = ["object", "watched", "source", "requeue", "retry", "resync", "initial"];

/// Draws the number of reconciles by cause. Causes that never occurred are left out.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let occurred = state.controllers.values().flat_map(|controller| &controller.causes);
    let occurred: BTreeSet<&str> =
        occurred.filter(|(_, count)| **count > 0.0).map(|(cause, _)| cause.as_str()).gather();
    let causes: Vec<&str> = CAUSES.into_iter().filter(|cause| occurred.contains(cause)).collect();
    let right = |text: String, style: Style| Cell::from(Line::styled(text, style).right_aligned());
    let titles = causes.iter().map(|cause| right(cause.to_uppercase(), Style::new()));
    let titles = Row::new(std::iter::once(Cell::from("CONTROLLER")).chain(titles));
    let rows =
        state.controllers.iter().take(usize::from(area.height.saturating_sub(FRAME))).map(|(name, controller)| {
            let name = Span::styled(fit(name, 20), Style::new().add_modifier(Modifier::BOLD));
            let counts = causes.iter().map(|cause| {
                let number = controller.causes.get(*cause).copied().unwrap_or_default();
                right(count(number), if number > 0.0 { Style::new() } else { quiet() })
            });
            Row::new(std::iter::once(Cell::from(name)).chain(counts))
        });
    let widths = causes.iter().map(|cause| Constraint::Length(cause.len().max(6) as u16));
    let widths = std::iter::once(Constraint::Fill(1)).chain(widths);
    let table = Table::new(rows, widths).header(titles.style(names())).column_spacing(1);
    frame.render_widget(table.block(panel(" controllers: causes ", false)), area);
}
