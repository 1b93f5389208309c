//! What the keys do.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Clear, Paragraph},
};

use super::panel;

const KEYS: [(&str, &str); 11] = [
    ("q, ctrl-c", "stop the operator and leave"),
    ("r", "build and start it again"),
    ("p", "leave changes alone, or act on them again"),
    ("tab", "the arrows move objects, or the log"),
    ("↑ ↓, j k", "a line up or down"),
    ("PgUp, PgDn", "a page up or down"),
    ("home, end", "to the first or the last line"),
    ("← →", "the log sideways"),
    ("/", "only lines of the log with a text in them"),
    ("esc", "all lines again"),
    ("?", "this"),
];

/// A window in the middle.
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
