//! State of the view, updated by events and keys. No clock, no terminal.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use windlass_schema::sorting::Gather as _;

use super::{
    history::History,
    keys::Key,
    log::{Line, Log},
    rates::{self, Controller},
};
use crate::run::{
    event::{Build, Event, Operator, Resource, Source},
    supervisor::Command,
};

/// Columns to scroll sideways per key.
const SIDEWAYS: usize = 8;

/// A point in time: of a monotonic clock, and of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    pub(crate) instant: Duration,
    pub(crate) day: Timestamp,
}

/// State of the view.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) project: String,
    pub(crate) server: String,
    pub(crate) kubeconfig: Option<String>,
    pub(crate) building: Building,
    pub(crate) operator: OperatorState,
    /// Since when the operator has been in its state.
    pub(crate) since: Duration,
    pub(crate) builds: usize,
    pub(crate) changes: usize,
    pub(crate) paused: bool,
    pub(crate) kinds: BTreeSet<String>,
    pub(crate) resources: BTreeMap<(String, Option<String>, String), Resource>,
    pub(crate) controllers: BTreeMap<String, Controller>,
    counted: Option<Duration>,
    pub(crate) log: Log,
    pub(crate) history: History,
    pub(crate) focus: Focus,
    /// First visible object.
    pub(crate) top: usize,
    /// Columns of the log scrolled out on the left.
    pub(crate) left: usize,
    pub(crate) filter: String,
    /// Whether the filter is being typed.
    pub(crate) typing: bool,
    pub(crate) help: bool,
    /// Whether reconciles are shown with their causes, in place of the log.
    pub(crate) causes: bool,
    /// Heights of the panels.
    pub(crate) heights: Heights,
}

/// State of the build.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Building {
    #[default]
    Idle,
    Busy {
        since: Duration,
        /// Last line of cargo.
        step: String,
    },
    Failed,
}

/// State of the operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum OperatorState {
    #[default]
    NotYet,
    Installing,
    Starting,
    Ready,
    Stopping,
    Crashed(String),
    Failed(String),
}

/// Panel with the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Focus {
    #[default]
    Log,
    Resources,
}

/// Heights in lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heights {
    pub(crate) resources: usize,
    pub(crate) log: usize,
}

impl State {
    /// The initial state.
    pub(crate) fn new(project: String) -> Self {
        Self { project, ..Self::default() }
    }

    /// Updates the state with an event.
    pub(crate) fn on(&mut self, event: Event, now: Now) {
        if let Some((source, text)) = event.sentence() {
            if let (Source::Cargo, Building::Busy { step, .. }) = (source, &mut self.building) {
                text.trim().clone_into(step);
            }
            self.log.push(Line::parse(source, &text, now.day));
        }
        match event {
            Event::Cluster { server, kubeconfig } => (self.server, self.kubeconfig) = (server, kubeconfig),
            Event::Changed(_) => self.changes += 1,
            Event::Paused(paused) => self.paused = paused,
            Event::Build(build) => self.building = self.built(build, now),
            Event::Operator(operator) => self.operated(operator, now),
            Event::Numbers(numbers) => {
                let seconds = self.counted.map_or(1.0, |then| (now.instant.saturating_sub(then)).as_secs_f64());
                self.counted = Some(now.instant);
                rates::record(&mut self.controllers, numbers, seconds);
            }
            Event::Reconciles(reconciles) => self.history.record(reconciles),
            Event::Kinds(kinds) => {
                self.kinds = kinds.into_iter().gather();
                self.resources.retain(|(kind, ..), _| self.kinds.contains(kind));
            }
            Event::Resources { kind, objects } => {
                self.resources.retain(|(other, ..), _| *other != kind);
                objects.into_iter().for_each(|object| self.put(object));
            }
            Event::Resource(object) => self.put(object),
            Event::Gone { kind, namespace, name } => {
                self.resources.remove(&(kind, namespace, name));
            }
            Event::Line(..) | Event::Ending => {}
        }
        self.stay_within();
    }

    fn put(&mut self, object: Resource) {
        self.resources.insert((object.kind.clone(), object.namespace.clone(), object.name.clone()), object);
    }

    fn built(&mut self, build: Build, now: Now) -> Building {
        match build {
            Build::Started => Building::Busy { since: now.instant, step: String::new() },
            Build::Done { fresh, .. } => {
                self.builds += usize::from(!fresh);
                Building::Idle
            }
            Build::Failed { .. } => Building::Failed,
        }
    }

    fn operated(&mut self, operator: Operator, now: Now) {
        let next = match operator {
            // It keeps running until the new one starts.
            Operator::Installing if self.operator == OperatorState::Ready => return,
            Operator::Installing => OperatorState::Installing,
            Operator::Starting { .. } => {
                self.history.restart();
                OperatorState::Starting
            }
            Operator::Ready => OperatorState::Ready,
            Operator::Stopping => OperatorState::Stopping,
            Operator::Crashed { how, .. } => OperatorState::Crashed(how),
            Operator::Failed { why } => OperatorState::Failed(why),
        };
        self.operator = next;
        self.since = now.instant;
        if matches!(self.operator, OperatorState::Crashed(_) | OperatorState::Stopping) {
            for controller in self.controllers.values_mut() {
                (controller.queued, controller.active) = (0.0, 0.0);
            }
        }
    }

    /// Sets the heights of the panels.
    pub(crate) fn resize(&mut self, heights: Heights) {
        self.heights = heights;
        self.log.scroll(0, heights.log);
        self.history.log.scroll(0, heights.log);
        self.stay_within();
    }

    /// Handles a key, and returns the resulting command.
    pub(crate) fn key(&mut self, key: Key) -> Option<Command> {
        if self.typing {
            return self.typed(key);
        }
        if self.help && key != Key::Quit {
            self.help = false;
            return None;
        }
        let page = |height: usize| isize::try_from(height.saturating_sub(1).max(1)).unwrap_or(1);
        let page = page(match self.focus {
            Focus::Log => self.heights.log,
            Focus::Resources => self.heights.resources,
        });
        match key {
            Key::Quit | Key::Letter('q') => return Some(Command::Quit),
            Key::Letter('r') => return Some(Command::Restart),
            Key::Letter('p') => return Some(Command::Pause),
            Key::Letter('?' | 'h') => self.help = true,
            Key::Letter('c') => self.causes = !self.causes,
            Key::Letter('/') => self.typing = true,
            Key::Escape => self.set_filter(String::new()),
            Key::Tab => {
                self.focus = match self.focus {
                    Focus::Log => Focus::Resources,
                    Focus::Resources => Focus::Log,
                }
            }
            Key::Up | Key::Letter('k') => self.scroll(-1),
            Key::Down | Key::Letter('j') => self.scroll(1),
            Key::PageUp => self.scroll(-page),
            Key::PageDown | Key::Letter(' ') => self.scroll(page),
            Key::Home | Key::Letter('g') => self.scroll(isize::MIN + 1),
            Key::End | Key::Letter('G') => self.scroll(isize::MAX),
            Key::Left => self.left = self.left.saturating_sub(SIDEWAYS),
            Key::Right => self.left = (self.left + SIDEWAYS).min(1024),
            _ => {}
        }
        None
    }

    fn typed(&mut self, key: Key) -> Option<Command> {
        let mut filter = self.filter.clone();
        match key {
            Key::Quit => return Some(Command::Quit),
            Key::Enter | Key::Tab => self.typing = false,
            Key::Escape => {
                self.typing = false;
                filter.clear();
            }
            Key::Backspace => {
                self.typing = filter.pop().is_some();
            }
            Key::Letter(letter) => filter.push(letter),
            _ => {}
        }
        self.set_filter(filter);
        None
    }

    fn set_filter(&mut self, filter: String) {
        if filter != self.filter {
            self.log.set_filter(&filter);
            self.history.log.set_filter(&filter);
            self.filter = filter;
        }
    }

    fn scroll(&mut self, by: isize) {
        match self.focus {
            Focus::Log if self.causes => self.history.log.scroll(by, self.heights.log),
            Focus::Log => self.log.scroll(by, self.heights.log),
            Focus::Resources => {
                self.top = self.top.saturating_add_signed(by);
                self.stay_within();
            }
        }
    }

    fn stay_within(&mut self) {
        self.top = self.top.min(self.resources.len().saturating_sub(self.heights.resources));
    }
}

#[cfg(test)]
mod tests;
