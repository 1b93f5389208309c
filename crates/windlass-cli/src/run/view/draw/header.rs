//! The header with the status, and the footer with the keys.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::{
    super::state::{Building, Now, OperatorState, State},
    quiet,
    words::{age, counted, fit},
};

/// Frames of the spinner.
const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

/// Keys, most important first.
const KEYS: [(&str, &str); 7] = [
    ("q", "quit"),
    ("r", "restart"),
    ("p", "pause"),
    ("/", "filter"),
    ("tab", "focus"),
    ("↑↓", "scroll"),
    ("?", "help"),
];

/// Draws the project, the state of the operator and build, and the server.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, now: Now) {
    let mut spans = vec![
        Span::styled(" windlass ", Style::new().fg(Color::Black).bg(Color::Cyan)),
        Span::styled(format!(" {} ", state.project), Style::new().add_modifier(Modifier::BOLD)),
    ];
    spans.extend(operator(state, now));
    spans.extend(build(state, now));
    if state.paused {
        spans.push(" ".into());
        spans.push(chip("PAUSED", Color::Yellow));
    }
    let mut words = Vec::new();
    if state.builds > 0 {
        words.push(counted(state.builds, "build"));
    }
    if state.changes > 0 {
        words.push(counted(state.changes, "change"));
    }
    let (detail, is_trouble) = match (&state.building, &state.operator) {
        (Building::Busy { step, .. }, _) => (step.clone(), false),
        (_, OperatorState::Crashed(text) | OperatorState::Failed(text)) => (text.clone(), true),
        _ => (words.join(" · "), false),
    };
    let left = Line::from(spans);
    let used = left.width();
    let width = usize::from(area.width);
    // Errors take precedence over the server's URL.
    let needed = used + state.server.len() + 4 + if is_trouble { detail.chars().count() } else { 0 };
    let server = if needed <= width { format!("{} ", state.server) } else { String::new() };
    let room = width.saturating_sub(used + server.chars().count() + 4);
    frame.render_widget(left, area);
    if room > 4 {
        let detail = Line::styled(fit(&detail, room), quiet());
        frame.render_widget(detail, Rect { x: area.x + used as u16 + 2, width: room as u16, ..area });
    }
    frame.render_widget(at_the_right(server), area);
}

/// Right-aligned. The style applies to the text only.
fn at_the_right(text: String) -> Line<'static> {
    Line::from(Span::styled(text, quiet())).right_aligned()
}

/// Not bold: many terminals show bold black as grey.
fn chip(text: &str, colour: Color) -> Span<'static> {
    Span::styled(format!(" {text} "), Style::new().fg(Color::Black).bg(colour))
}

fn operator(state: &State, now: Now) -> Vec<Span<'static>> {
    let (text, colour) = match &state.operator {
        OperatorState::NotYet => return Vec::new(),
        OperatorState::Installing => ("INSTALLING", Color::Yellow),
        OperatorState::Starting => ("STARTING", Color::Yellow),
        OperatorState::Ready => ("RUNNING", Color::Green),
        OperatorState::Stopping => ("STOPPING", Color::Yellow),
        OperatorState::Crashed(_) => ("CRASHED", Color::Red),
        OperatorState::Failed(_) => ("FAILED", Color::Red),
    };
    let since = age(now.instant.saturating_sub(state.since));
    vec![chip(text, colour), Span::styled(format!(" {since}"), Style::new().fg(colour))]
}

fn build(state: &State, now: Now) -> Vec<Span<'static>> {
    match &state.building {
        Building::Idle => Vec::new(),
        Building::Failed => vec![" ".into(), chip("BUILD FAILED", Color::Red)],
        Building::Busy { since, .. } => {
            let time = now.instant.saturating_sub(*since);
            let turn = (time.as_millis() / 125) as usize % SPINNER.len();
            let words = format!(" {} {}", SPINNER[turn], age(time));
            vec![" ".into(), chip("BUILDING", Color::Yellow), Span::styled(words, Style::new().fg(Color::Yellow))]
        }
    }
}

/// Draws the keys, or the filter while it is being typed, and the kubeconfig if there is room.
pub(super) fn draw_footer(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let key = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
    if state.typing {
        let line = Line::from(vec![
            Span::styled(" /", key),
            Span::raw(state.filter.clone()),
            Span::styled("█", key),
            Span::styled("  enter: apply, esc: clear", quiet()),
        ]);
        frame.render_widget(line, area);
        return;
    }
    let mut spans = vec![Span::raw(" ")];
    for (name, does) in KEYS {
        spans.extend([Span::styled(name, key), Span::styled(format!(" {does}  "), quiet())]);
    }
    let keys = Line::from(spans);
    let used = keys.width();
    frame.render_widget(keys, area);
    if let Some(kubeconfig) = &state.kubeconfig {
        let text = format!("KUBECONFIG={kubeconfig} ");
        if used + text.chars().count() <= usize::from(area.width) {
            frame.render_widget(at_the_right(text), area);
        }
    }
}
