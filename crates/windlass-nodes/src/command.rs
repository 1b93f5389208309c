//! Behavior of a container, derived from its command. Pure.
//!
//! Nothing runs on simulated nodes, but how `sleep 5`, `exit 1` or a short shell script of such commands ends is known.
//! Everything else is unknown, and the pod decides: `docs/src/nodes.md` has the rules.

mod program;
mod shell;
mod variables;
mod words;

use std::time::Duration;

use serde_json::Value;

use self::{program::Machine, variables::Variables};
use crate::containers::items;

/// Behavior of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// It ends by itself after this time.
    Ends { after: Duration, code: i64 },
    /// It runs until it is stopped.
    Runs,
}

/// Returns what a container of a pod does, or `None` if that is not known. `restarts` is how often it was restarted.
pub(super) fn behaviour(pod: &Value, container: &Value, restarts: u64) -> Option<Behaviour> {
    let words = |field: &str| items(container, field).iter().filter_map(Value::as_str);
    if words("command").next().is_none() {
        // Without a command the image decides, and only one is known.
        return is_pause(container).then_some(Behaviour::Runs);
    }
    let variables = Variables::of(pod, container);
    let line: Option<Vec<String>> =
        words("command").chain(words("args")).map(|word| variables.expand_references(word)).collect();
    Machine::new(pod, container, &variables, restarts).run(&line?)
}

/// Returns a string of a container with its references to variables replaced, if their values are known and not empty:
/// `Err` if one is unset or empty, `Ok(None)` if one is not known.
pub(super) fn expand_required(pod: &Value, container: &Value, text: &str) -> Result<Option<String>, ()> {
    let variables = Variables::of(pod, container);
    let names = text.split("$(").skip(1).filter_map(|rest| rest.split_once(')').map(|(name, _)| name));
    for name in names {
        if variables.get(name).is_some_and(|value| value.is_empty()) {
            return Err(());
        }
    }
    Ok(variables.expand_references(text))
}

/// Returns whether the image of a container is that of the program that only waits.
fn is_pause(container: &Value) -> bool {
    let image = container["image"].as_str().unwrap_or_default();
    let name = image.split('@').next().unwrap_or(image);
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split(':').next() == Some("pause")
}

#[cfg(test)]
mod tests;
