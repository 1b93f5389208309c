//! The state between the two rounds of mutating policies.

use std::collections::HashSet;

use serde_json::Value;

/// A policy with a binding and a parameter object, each by name.
pub(super) type InvocationKey = (String, String, String);

/// The state between the two rounds of mutating policies.
#[derive(Default)]
pub(crate) struct PolicyRounds {
    /// Whether this is the second round.
    again: bool,
    /// Policies that must run again if the object changes after them.
    ran: HashSet<InvocationKey>,
    /// Policies that must run again.
    due: HashSet<InvocationKey>,
    /// Whether the object was changed.
    changed: bool,
    /// The object after the first round; `None` if no policy matched.
    outcome: Option<Value>,
}

impl PolicyRounds {
    /// Begins the second round; returns `false` if there is no reason for one.
    pub(crate) fn begin_again(&mut self) -> bool {
        self.again = true;
        self.changed
    }

    /// Begins a round, in which at least one policy matches.
    pub(super) fn begin(&mut self, object: &Value) {
        if self.again && self.outcome.as_ref() != Some(object) {
            self.note_change();
        }
    }

    /// Records that the object was changed.
    pub(super) fn note_change(&mut self) {
        self.due.extend(self.ran.drain());
        self.changed = true;
    }

    /// Returns whether a policy has to run in this round.
    pub(super) fn includes(&self, key: &InvocationKey) -> bool {
        !self.again || self.due.contains(key)
    }

    /// Records the run of a policy that must run again if the object changes.
    pub(super) fn note_run(&mut self, key: InvocationKey) {
        self.ran.insert(key);
    }

    /// Ends a round.
    pub(super) fn end(&mut self, object: &Value) {
        // Only policies that can run again need to know whether the object changes after this round.
        let needed = !self.again && (!self.ran.is_empty() || !self.due.is_empty());
        self.outcome = needed.then(|| object.clone());
    }
}
