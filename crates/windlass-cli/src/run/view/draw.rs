//! Drawing of a state. Pure: the same state at the same time yields the same picture.

mod controllers;
mod header;
mod help;
mod log;
mod resources;
mod words;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Block, BorderType, Padding},
};

use super::state::{Focus, Heights, Now, State};

/// From this width on, objects and controllers are side by side.
const WIDE: u16 = 120;
/// Below this height, only the log is shown.
const LOW: u16 = 14;
/// Borders and column headings.
const FRAME: u16 = 3;

/// Areas of the panels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Panels {
    header: Rect,
    resources: Rect,
    controllers: Rect,
    log: Rect,
    footer: Rect,
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, now: Now, colour: bool) {
    let area = frame.area();
    let panels = panels(area, state);
    header::draw(frame, panels.header, state, now);
    resources::draw(frame, panels.resources, state, now);
    controllers::draw(frame, panels.controllers, state);
    log::draw(frame, panels.log, state);
    header::draw_footer(frame, panels.footer, state);
    if state.help {
        help::draw(frame, area);
    }
    if !colour {
        frame.buffer_mut().set_style(area, Style::new().fg(Color::Reset).bg(Color::Reset));
    }
}

/// Number of lines of each panel in a terminal of this size.
pub(crate) fn heights(area: Rect, state: &State) -> Heights {
    let panels = panels(area, state);
    Heights {
        resources: panels.resources.height.saturating_sub(FRAME).into(),
        log: panels.log.height.saturating_sub(2).into(),
    }
}

/// Objects and controllers get the space they need, up to a half; the log gets the rest.
fn panels(area: Rect, state: &State) -> Panels {
    let [header, body, footer] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    if area.height < LOW {
        return Panels { header, log: body, footer, ..Panels::default() };
    }
    let rows = |count: usize| u16::try_from(count.max(1)).unwrap_or(u16::MAX).saturating_add(FRAME);
    let (objects, numbers) = (rows(state.resources.len()), rows(state.controllers.len()));
    let half = body.height / 2;
    if area.width >= WIDE {
        let height = objects.max(numbers).clamp(FRAME + 3, half.max(FRAME + 1));
        let [top, log] = Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(body);
        let [resources, controllers] = Layout::horizontal([Constraint::Fill(11), Constraint::Fill(9)]).areas(top);
        return Panels { header, resources, controllers, log, footer };
    }
    let numbers = numbers.min((half / 2).max(FRAME + 1));
    let objects = objects.clamp(FRAME + 1, half.saturating_sub(numbers).max(FRAME + 1) + 2);
    let [resources, controllers, log] =
        Layout::vertical([Constraint::Length(objects), Constraint::Length(numbers), Constraint::Fill(1)]).areas(body);
    Panels { header, resources, controllers, log, footer }
}

/// Severity of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Good,
    Bad,
    Waiting,
    Plain,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Good => Style::new().fg(Color::Green),
            Self::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            Self::Waiting => Style::new().fg(Color::Yellow),
            Self::Plain => Style::new(),
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Good => "●",
            Self::Bad => "✗",
            Self::Waiting => "◌",
            Self::Plain => "○",
        }
    }
}

/// Style of secondary text.
fn quiet() -> Style {
    Style::new().fg(Color::DarkGray)
}

fn names() -> Style {
    Style::new().fg(Color::Gray).add_modifier(Modifier::DIM)
}

/// A frame with a title; bright if it has the focus.
fn panel<'a>(title: impl Into<Line<'a>>, focused: bool) -> Block<'a> {
    let style = if focused { Style::new().fg(Color::Cyan) } else { quiet() };
    Block::bordered().border_type(BorderType::Rounded).border_style(style).padding(Padding::horizontal(1)).title(title)
}

fn has_focus(state: &State, panel: Focus) -> bool {
    state.focus == panel
}

#[cfg(test)]
mod tests;
