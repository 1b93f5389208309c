//! The log, or the reconciles in its place.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    super::{
        log::{Level, Line as Entry},
        state::{Focus, State},
    },
    has_focus, panel, quiet,
    words::counted,
};
use crate::run::event::Source;

/// Draws the visible lines.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State) {
    if area.is_empty() {
        return;
    }
    let (title, log) = if state.causes { (" reconciles ", &state.history.log) } else { (" log ", &state.log) };
    let mut block = panel(title, has_focus(state, Focus::Log));
    if !state.filter.is_empty() {
        let found = format!(" {} with “{}” ", counted(log.len(), "line"), state.filter);
        block = block.title(Line::styled(found, Style::new().fg(Color::Cyan)).right_aligned());
    }
    if log.below() > 0 {
        let more = format!(" ↓ {} more ", log.below());
        block = block.title_bottom(Line::styled(more, Style::new().fg(Color::Yellow)).right_aligned());
    }
    let height = usize::from(area.height.saturating_sub(2));
    let lines: Vec<Line<'_>> = log.window(height).into_iter().map(line).collect();
    let left = u16::try_from(state.left).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(lines).scroll((0, left)).block(block), area);
}

fn line(entry: &Entry) -> Line<'_> {
    let Entry { source, time, level, about, text } = entry;
    let mut spans = vec![Span::styled(time.as_str(), quiet()), Span::raw(" ")];
    match source {
        Source::Cargo => {
            let style = match level {
                Level::Error | Level::Warn => of(*level).add_modifier(Modifier::BOLD),
                _ if text.trim_start().starts_with("-->") => Style::new().fg(Color::Cyan),
                _ => Style::new(),
            };
            spans.extend([Span::styled("cargo ", Style::new().fg(Color::Magenta)), Span::styled(text.as_str(), style)]);
        }
        Source::Windlass => {
            spans.extend([
                Span::styled("    » ", Style::new().fg(Color::Cyan)),
                Span::styled(text.as_str(), of(*level)),
            ]);
        }
        Source::Error => spans.extend([Span::styled("    » ", of(*level)), Span::styled(text.as_str(), of(*level))]),
        Source::Operator => {
            let style = of(*level).add_modifier(if *level >= Level::Warn { Modifier::BOLD } else { Modifier::empty() });
            spans.push(Span::styled(format!("{:>5} ", level.name()), style));
            if !about.is_empty() {
                spans.push(Span::styled(format!("{about} "), quiet()));
            }
            let (message, fields) = fields(text);
            spans.extend([Span::raw(message), Span::styled(fields, quiet())]);
        }
    }
    Line::from(spans)
}

fn of(level: Level) -> Style {
    match level {
        Level::Error => Style::new().fg(Color::Red),
        Level::Warn => Style::new().fg(Color::Yellow),
        Level::Info => Style::new().fg(Color::Green),
        Level::Debug => Style::new().fg(Color::Blue),
        Level::Trace => quiet(),
    }
}

/// Splits a message from its fields: `name=value name=value`.
fn fields(text: &str) -> (&str, &str) {
    let is_name = |word: &str| {
        !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter))
    };
    let mut start = 0;
    for word in text.split(' ') {
        if word.split_once('=').is_some_and(|(name, _)| is_name(name)) {
            return text.split_at(start);
        }
        start += word.len() + 1;
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_split_from_the_message() {
        assert_eq!(fields("it failed error=\"no way\" tries=3"), ("it failed ", "error=\"no way\" tries=3"));
        assert_eq!(fields("a == b, and nothing else"), ("a == b, and nothing else", ""));
        assert_eq!(fields("version=1"), ("", "version=1"));
        assert_eq!(fields(""), ("", ""));
    }
}
