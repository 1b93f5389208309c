//! Shows a run line by line, for files, pipes and terminals without the live view.
//!
//! The operator's output goes to standard output, the rest to standard error; both with a prefix that names the source.

use std::{
    collections::HashMap,
    io::{self, IsTerminal as _, Write as _},
};

use tokio::sync::mpsc;

use super::event::{Event, Resource, Source};

use crate::output;

/// Shows events as lines.
#[derive(Debug)]
pub(crate) struct Plain {
    out_colour: bool,
    err_colour: bool,
    /// Last description of each object: unchanged ones are not repeated.
    said: HashMap<(String, Option<String>, String), String>,
}

impl Plain {
    /// Uses colour on terminals unless `NO_COLOR` is set.
    pub(crate) fn new() -> Self {
        let allowed = output::colour_allowed();
        Self {
            out_colour: allowed && io::stdout().is_terminal(),
            err_colour: allowed && io::stderr().is_terminal(),
            said: HashMap::new(),
        }
    }

    /// Shows events until there are no more.
    pub(crate) async fn show_all(mut self, mut events: mpsc::Receiver<Event>) {
        while let Some(event) = events.recv().await {
            self.show(event);
        }
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, event: Event) {
        match event {
            Event::Resources { objects, .. } => objects.into_iter().for_each(|object| self.resource(&object)),
            Event::Resource(object) => self.resource(&object),
            Event::Gone { kind, namespace, name } => {
                let place = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
                self.line(Source::Windlass, &format!("{kind} {place}{name}: deleted"));
                self.said.remove(&(kind, namespace, name));
            }
            event => {
                if let Some((source, text)) = event.sentence() {
                    self.line(source, &text);
                }
            }
        }
    }

    fn resource(&mut self, object: &Resource) {
        let sentence = object.sentence();
        let key = (object.kind.clone(), object.namespace.clone(), object.name.clone());
        if self.said.insert(key, sentence.clone()).as_ref() != Some(&sentence) {
            self.line(Source::Windlass, &sentence);
        }
    }

    fn line(&self, source: Source, text: &str) {
        // The reader has closed the pipe.
        let _ = match source {
            Source::Operator => writeln!(io::stdout(), "{}", prefixed(source, text, self.out_colour)),
            _ => writeln!(io::stderr(), "{}", prefixed(source, text, self.err_colour)),
        };
    }
}

fn prefixed(source: Source, text: &str, colour: bool) -> String {
    let (name, code) = match source {
        Source::Cargo => ("   cargo", 36),
        Source::Operator => ("operator", 32),
        Source::Windlass => ("windlass", 34),
        Source::Error => ("windlass", 31),
    };
    if colour { format!("\u{1b}[{code}m{name} |\u{1b}[0m {text}") } else { format!("{name} | {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_prefixed_with_their_source() {
        assert_eq!(prefixed(Source::Cargo, "Compiling", false), "   cargo | Compiling");
        assert_eq!(prefixed(Source::Operator, "started", true), "\u{1b}[32moperator |\u{1b}[0m started");
    }
}
