//! Help about the keys.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Clear, Paragraph},
};

use super::panel;

const KEYS: [(&str, &str); 12] = [
    ("q, ctrl-c", "stop the operator and quit"),
    ("r", "rebuild and restart"),
    ("p", "pause or resume restarts on changes"),
    ("c", "show reconciles and causes, or the log"),
    ("tab", "switch between objects and log"),
    ("↑ ↓, j k", "scroll by a line"),
    ("PgUp, PgDn", "scroll by a page"),
    ("home, end", "go to the first or last line"),
    ("← →", "scroll the log sideways"),
    ("/", "filter the log by text (case-insensitive)"),
    ("esc", "clear the filter"),
    ("?", "this"),
];

/// Draws a window in the middle.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect) {
    let key = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
    let line = |(name, does): (&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!(" {name:>10}  "), key), Span::raw(does)])
    };
    let lines: Vec<Line<'_>> = KEYS.into_iter().map(line).collect();
    let (width, height) = (60.min(area.width), (KEYS.len() as u16 + 2).min(area.height));
    let window = area.centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, window);
    frame.render_widget(Paragraph::new(lines).block(panel(" keys ", true)), window);
}
