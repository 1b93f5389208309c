//! Activity of the controllers.

mod causes;

use std::collections::VecDeque;

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row, Table},
};

use super::{
    super::{rates::Controller, state::State},
    FRAME, Tone, names, panel, quiet,
    words::{count, fit, rate, took},
};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Seconds for which failures are highlighted.
const RECENT: usize = 10;
/// Widths of rate, errors, queue, p50 and p99.
const NUMBERS: [u16; 5] = [10, 6, 5, 6, 6];

/// Draws the table.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State) {
    if area.is_empty() {
        return;
    }
    let block = panel(" controllers ", false);
    if state.controllers.is_empty() {
        let text = Line::styled("no metrics yet", quiet());
        frame.render_widget(Paragraph::new(text).block(block), area);
        return;
    }
    if state.causes {
        causes::draw(frame, area, state);
        return;
    }
    let height = usize::from(area.height.saturating_sub(FRAME));
    let longest = state.controllers.keys().map(|name| name.chars().count()).max().unwrap_or_default();
    let longest = longest.clamp("CONTROLLER".len(), 20) as u16;
    let [a, b, c, d, e] = NUMBERS;
    let widths = [longest, a].map(Constraint::Length).into_iter();
    let widths = widths.chain([Constraint::Fill(1)]).chain([b, c, d, e].map(Constraint::Length));
    // Borders, and a space between columns.
    let graph = area.width.saturating_sub(4 + longest + NUMBERS.iter().sum::<u16>() + 6);
    let right = |text: &str| Cell::from(Line::from(text.to_owned()).right_aligned());
    let titles = Row::new([
        Cell::from("CONTROLLER"),
        right("RECONCILES"),
        Cell::from(""),
        right("ERRORS"),
        right("QUEUE"),
        right("P50"),
        right("P99"),
    ]);
    let rows = state.controllers.iter().take(height).map(|(name, controller)| {
        let styled = |text: String, style: Style| Cell::from(Line::styled(text, style).right_aligned());
        Row::new([
            Cell::from(Span::styled(fit(name, longest.into()), Style::new().add_modifier(Modifier::BOLD))),
            styled(rate(controller.rate()), if controller.rate() > 0.0 { Tone::Good.style() } else { quiet() }),
            Cell::from(bars(&controller.rates, graph.into())),
            styled(count(controller.errors), errors(controller)),
            styled(count(controller.queued), if controller.queued > 0.0 { Tone::Waiting.style() } else { quiet() }),
            styled(took(controller.quantile(0.5)), Style::new()),
            styled(took(controller.quantile(0.99)), Style::new()),
        ])
    });
    let table = Table::new(rows, widths).header(titles.style(names())).column_spacing(1);
    frame.render_widget(table.block(block), area);
}

fn errors(controller: &Controller) -> Style {
    match controller.errors > 0.0 {
        true if controller.since_error < RECENT => Tone::Bad.style(),
        true => Style::new().fg(Color::Red),
        false => quiet(),
    }
}

/// One bar per second, the newest on the right, scaled to the highest.
fn bars(rates: &VecDeque<f64>, width: usize) -> Line<'static> {
    let last: Vec<f64> = rates.iter().rev().take(width).rev().copied().collect();
    let highest = last.iter().copied().fold(1.0, f64::max);
    let mut spans = vec![Span::raw(" ".repeat(width - last.len()))];
    for rate in last {
        let place = (rate / highest * 7.0).ceil().clamp(0.0, 7.0) as usize;
        let style = if rate > 0.0 { Tone::Good.style() } else { quiet() };
        spans.push(Span::styled(BARS[place].to_string(), style));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_with_the_rate_and_are_right_aligned() {
        let text = |rates: &[f64], width| bars(&rates.iter().copied().collect(), width).to_string();
        assert_eq!(text(&[0.0, 5.0, 10.0], 5), "  ▁▅█");
        assert_eq!(text(&[9.0, 0.0, 0.5], 2), "▁▅");
        assert_eq!(text(&[], 2), "  ");
        assert_eq!(text(&[1.0], 0), "");
    }
}
