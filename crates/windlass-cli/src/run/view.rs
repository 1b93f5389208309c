//! The live view in the terminal: a thin loop around [`state`] and [`draw`].

mod draw;
mod history;
mod keys;
mod log;
mod rates;
mod state;

use std::{
    io,
    time::{Duration, Instant},
};

use crossterm::event::EventStream;
use futures_util::StreamExt as _;
use ratatui::{DefaultTerminal, layout::Rect};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use self::{
    keys::Key,
    state::{Now, State},
};
use super::{event::Event, plain::Plain, supervisor::Command};
use crate::{logging, output::colour_allowed};

/// Minimum time between frames.
const FRAME: Duration = Duration::from_millis(40);
/// Maximum time between frames, for the spinner and ages.
const TICK: Duration = Duration::from_millis(250);

/// Shows a run until it ends. Later events are printed as lines.
pub(crate) async fn show(project: String, mut events: mpsc::Receiver<Event>, commands: mpsc::Sender<Command>) {
    let mut plain = Plain::new();
    if let Err(error) = watch(project, &mut events, &commands).await {
        plain.show(Event::Line(super::event::Source::Error, format!("the live view is not available: {error}")));
    }
    plain.show_all(events).await;
}

/// The terminal, which is restored when dropped.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> io::Result<Self> {
        // Also restores it on panic.
        ratatui::try_init().map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

async fn watch(
    project: String,
    events: &mut mpsc::Receiver<Event>,
    commands: &mpsc::Sender<Command>,
) -> io::Result<()> {
    let colour = colour_allowed();
    let mut screen = Screen::open()?;
    let mut logged = logging::divert();
    let mut keys = EventStream::new();
    let mut state = State::new(project);
    let start = Instant::now();
    let now = || Now { instant: start.elapsed(), day: windlass_clock::now() };
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut drawn = Instant::now();
    let mut is_stale = true;
    loop {
        if is_stale && drawn.elapsed() >= FRAME {
            let area = Rect::from((ratatui::layout::Position::ORIGIN, screen.0.size()?));
            state.resize(draw::heights(area, &state));
            screen.0.draw(|frame| draw::draw(frame, &state, now(), colour))?;
            (drawn, is_stale) = (Instant::now(), false);
        }
        tokio::select! {
            event = events.recv() => match event {
                None | Some(Event::Ending) => return Ok(()),
                Some(event) => state.on(event, now()),
            },
            Some(line) = logged.recv() => state.on(Event::Line(super::event::Source::Windlass, line), now()),
            key = keys.next() => match key {
                Some(Ok(key)) => {
                    if let Some(command) = Key::of(&key).and_then(|key| state.key(key)) {
                        // The channel may be full; repeated commands can be dropped.
                        let _ = commands.try_send(command);
                    }
                }
                Some(Err(error)) => return Err(error),
                // The terminal is gone, and with it any way to stop the run.
                None => {
                    let _ = commands.try_send(Command::Quit);
                    return Ok(());
                }
            },
            _ = tick.tick() => {}
            () = tokio::time::sleep(FRAME), if is_stale => {}
        }
        is_stale = true;
    }
}
