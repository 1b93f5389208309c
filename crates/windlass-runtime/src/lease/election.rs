//! The state machine of an election, without clocks or a network.
//!
//! [`Election`] returns the next [`ElectionStep`] and receives its result as an [`ElectionResult`]. Times come from the
//! candidate's own monotonic clock.
//!
//! Safety argument:
//! - every write is conditional on the last observed version, so only one of several writes after the same record
//!   succeeds;
//! - a candidate takes over a held lease only after it has known the same version for the whole duration in the record,
//!   counted from after the response in which it first saw that version;
//! - a leader counts its deadline from before it sent the successful request, and does not extend a deadline that has
//!   passed;
//! - it stops leading before it writes that it does.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Timing, leadership::LeadershipState, record::LeaseRecord};

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElectionStep {
    /// Read the lease.
    Read,
    /// Create the lease.
    Create(LeaseRecord),
    /// Replace the lease in the last observed version.
    Replace(LeaseRecord),
    /// Wait.
    Wait(Duration),
    /// Stop: the lease is lost or was released.
    End,
}

/// Result of an [`ElectionStep::Read`], [`ElectionStep::Create`] or [`ElectionStep::Replace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElectionResult {
    /// The current lease, or the lease as it was written.
    Is { record: LeaseRecord, version: String },
    /// There is no lease.
    Missing,
    /// Another candidate was faster.
    Rejected,
    /// Any other failure. The write may or may not have happened.
    Failed,
}

/// One candidate.
#[derive(Debug)]
pub(crate) struct Election {
    identity: String,
    timing: Timing,
    standing: LeadershipState,
    observed: Option<Observed>,
    /// Whether `observed` is considered current; otherwise the lease is read first.
    current: bool,
    /// Whether the lease had to be read since the last success.
    slow: bool,
    /// Whether the outcome of a write is unknown, so that the lease may be ours.
    unsettled: bool,
    rest: Option<Instant>,
    pending: Option<PendingRequest>,
}

#[derive(Debug)]
struct Observed {
    record: LeaseRecord,
    version: String,
    /// Time at which this version was first seen.
    at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    write: bool,
    at: Instant,
}

impl Election {
    pub(crate) fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            standing: LeadershipState::Candidate,
            observed: None,
            current: false,
            slow: false,
            unsettled: false,
            rest: None,
            pending: None,
        }
    }

    /// Returns the state of this candidate, to be published before anything else is done.
    pub(crate) fn standing(&self) -> LeadershipState {
        self.standing
    }

    /// Returns the holder of the lease, as far as it is known.
    pub(crate) fn holder(&self) -> Option<&str> {
        self.observed.as_ref().map(|observed| observed.record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Returns whether the leader had to read the lease to continue: a request failed, or another process wrote the
    /// lease.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow && matches!(self.standing, LeadershipState::Leads { .. })
    }

    /// Returns the timeout of the next request.
    pub(crate) fn patience(&self, now: Instant) -> Duration {
        match self.standing {
            LeadershipState::Leads { until } => self.timing.request().min(until.saturating_duration_since(now)),
            _ => self.timing.request(),
        }
    }

    /// Returns the next step. `now` is the candidate's monotonic clock, `wall` is for people who read the Lease,
    /// `chance` is from 0 to 1.
    pub(crate) fn next(&mut self, now: Instant, wall: Timestamp, chance: f64) -> ElectionStep {
        if let LeadershipState::Leads { until } = self.standing
            && now >= until
        {
            self.standing = LeadershipState::Over { led: true };
        }
        if let LeadershipState::Over { .. } = self.standing {
            return ElectionStep::End;
        }
        if let Some(rest) = self.rest {
            if now < rest {
                let until = match self.standing {
                    LeadershipState::Leads { until } => rest.min(until),
                    _ => rest,
                };
                return ElectionStep::Wait(until - now);
            }
            self.rest = None;
        }
        if !self.current {
            return self.ask(ElectionStep::Read, now);
        }
        let step = match &self.observed {
            None => ElectionStep::Create(self.claim(None, wall)),
            Some(observed) => {
                let record = &observed.record;
                let expired = now >= observed.at + record.duration();
                if record.holder == self.identity || record.holder.is_empty() || expired {
                    ElectionStep::Replace(self.claim(Some(record), wall))
                } else {
                    self.current = false;
                    let pause = self.timing.jittered(chance);
                    self.rest = Some(now + pause);
                    return ElectionStep::Wait(pause);
                }
            }
        };
        self.ask(step, now)
    }

    /// Handles the result of the last step, at `now`, which is after the response.
    pub(crate) fn answer(&mut self, answer: ElectionResult, now: Instant) {
        let Some(pending) = self.pending.take() else { return };
        match (pending.write, answer) {
            (true, ElectionResult::Is { record, version }) => {
                self.observe(record, version, now);
                self.unsettled = false;
                self.granted(pending.at + self.timing.renew_deadline, now);
                self.current = true;
                self.slow = false;
                self.rest = Some(now + self.timing.retry_period);
            }
            (true, answer) => {
                self.unsettled |= answer == ElectionResult::Failed;
                // After the first failure, a leader reads the lease at once; after the second, it waits.
                let first = self.current && !self.slow && matches!(self.standing, LeadershipState::Leads { .. });
                self.current = false;
                self.slow = true;
                self.rest = (!first).then(|| now + self.timing.retry_period);
            }
            (false, ElectionResult::Is { record, version }) => {
                self.observe(record, version, now);
                self.current = true;
                let ours = self.holder() == Some(&self.identity);
                if !ours && matches!(self.standing, LeadershipState::Leads { .. }) {
                    self.standing = LeadershipState::Over { led: true };
                }
            }
            (false, ElectionResult::Missing) => {
                // The lease was deleted. Its holder may not know yet, so its duration is waited for.
                let held = self.observed.as_ref().is_some_and(|observed| {
                    let holder = &observed.record.holder;
                    !holder.is_empty() && *holder != self.identity && now < observed.at + observed.record.duration()
                });
                if held {
                    self.rest = Some(now + self.timing.retry_period);
                } else {
                    self.observed = None;
                    self.current = true;
                }
            }
            (false, _) => self.rest = Some(now + self.timing.retry_period),
        }
    }

    /// Stops leading. Returns whether the lease may be ours, and so should be [released](Self::surrender).
    pub(crate) fn stop(&mut self) -> bool {
        let led = matches!(self.standing, LeadershipState::Leads { .. } | LeadershipState::Over { led: true });
        let lost = matches!(self.standing, LeadershipState::Over { .. });
        let writing = self.pending.take().is_some_and(|pending| pending.write);
        self.unsettled |= writing;
        self.current &= !writing;
        self.standing = LeadershipState::Over { led };
        !lost && (self.unsettled || self.holder() == Some(&self.identity))
    }

    /// Returns the next step to release the lease after [`stop`](Self::stop); `None` if it is not ours.
    pub(crate) fn surrender(&mut self, now: Instant, wall: Timestamp) -> Option<ElectionStep> {
        if !self.current {
            return Some(self.ask(ElectionStep::Read, now));
        }
        let observed = self.observed.as_ref().filter(|observed| observed.record.holder == self.identity)?;
        let step = ElectionStep::Replace(observed.record.released(wall));
        Some(self.ask(step, now))
    }

    fn ask(&mut self, step: ElectionStep, at: Instant) -> ElectionStep {
        self.pending = Some(PendingRequest { write: step != ElectionStep::Read, at });
        step
    }

    fn granted(&mut self, deadline: Instant, now: Instant) {
        match self.standing {
            // A deadline that has passed is not extended: a caller may already have learned that the lease is lost for
            // good.
            LeadershipState::Leads { until } if now < until => {
                self.standing = LeadershipState::Leads { until: deadline }
            }
            LeadershipState::Candidate if now < deadline => self.standing = LeadershipState::Leads { until: deadline },
            _ => {}
        }
    }

    fn observe(&mut self, record: LeaseRecord, version: String, now: Instant) {
        match &self.observed {
            Some(observed) if observed.version == version => {}
            _ => self.observed = Some(Observed { record, version, at: now }),
        }
    }

    fn claim(&self, current: Option<&LeaseRecord>, wall: Timestamp) -> LeaseRecord {
        let (acquired, transitions) = match current {
            None => (Some(wall), 0),
            Some(record) if record.holder == self.identity => (record.acquired.or(Some(wall)), record.transitions),
            Some(record) => (Some(wall), record.transitions.saturating_add(1)),
        };
        let renewed = Some(current.map_or(wall, |record| record.renewal(wall)));
        let seconds = self.timing.lease_seconds();
        LeaseRecord { holder: self.identity.clone(), seconds, acquired, renewed, transitions }
    }
}

#[cfg(test)]
mod tests;
