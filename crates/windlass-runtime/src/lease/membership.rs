//! The state machine of a group that shares keys, without clocks or a network.
//!
//! [`Membership`] returns the next [`MembershipStep`] and receives its result as a [`MembershipResult`], like an
//! election. See [`Sharding`](super::Sharding) for its guarantees and why they hold.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    Timing,
    record::LeaseRecord,
    ring::{KeyHash, Ring},
    shard::ShardView,
};

/// A lease that has been expired for this many of its durations is deleted.
const KEPT: u32 = 8;

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipStep {
    /// List the current leases of the group.
    List,
    /// Create this member's lease, with the text of a ring.
    Create(LeaseRecord, String),
    /// Replace this member's lease in the known version.
    Replace(LeaseRecord, String),
    /// Delete another member's lease in this version.
    Delete { name: Arc<str>, version: String },
    /// Wait.
    Wait(Duration),
}

/// Result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipResult {
    Listed(Vec<ListedLease>),
    Written {
        record: LeaseRecord,
        version: String,
    },
    Deleted,
    /// Rejected or failed; a write may or may not have happened.
    Failed,
}

/// A lease in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedLease {
    pub(crate) name: Arc<str>,
    pub(crate) version: String,
    pub(crate) record: LeaseRecord,
    pub(crate) ring: Option<Ring>,
}

/// One member.
#[derive(Debug)]
pub(crate) struct Membership {
    name: Arc<str>,
    identity: String,
    timing: Timing,
    others: BTreeMap<Arc<str>, OtherMember>,
    /// This member's lease, if its current state is known.
    mine: Option<(LeaseRecord, String)>,
    /// The members of the last list, which this member uses.
    active: Arc<Ring>,
    /// This member's ring on the API server, if it is known.
    on_server: Option<Arc<Ring>>,
    /// Rings whose claims this member has not given up: the one that was on the API server at the last list, and each
    /// one adopted since.
    held: Vec<Arc<Ring>>,
    until: Option<Instant>,
    rest: Option<Instant>,
    todo: NextTask,
    pending: Option<PendingRequest>,
    ended: bool,
    /// Whether the last list did not contain this member's lease.
    missing: bool,
}

#[derive(Debug)]
struct OtherMember {
    version: String,
    record: LeaseRecord,
    ring: Option<Arc<Ring>>,
    /// Time at which this version was first seen.
    at: Instant,
    listed: bool,
    /// Whether its duration had passed before the last list was requested.
    expired: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextTask {
    List,
    Write,
    Collect,
}

#[derive(Debug)]
struct PendingRequest {
    at: Instant,
    /// The ring that is being written.
    ring: Option<Arc<Ring>>,
}

impl Membership {
    /// Creates a member with a lease of this name, which no other process may ever use.
    pub(crate) fn new(name: Arc<str>, identity: String, timing: Timing) -> Self {
        let active = Arc::new(Ring::new([name.clone()]));
        Self {
            name,
            identity,
            timing,
            others: BTreeMap::new(),
            mine: None,
            active,
            on_server: None,
            held: Vec::new(),
            until: None,
            rest: None,
            todo: NextTask::List,
            pending: None,
            ended: false,
            missing: false,
        }
    }

    /// Returns the view of this member, to be published before anything else is done.
    pub(crate) fn view(&self) -> ShardView {
        let rivals =
            self.others.iter().filter(|(_, other)| other.may_work() && other.ring.as_ref() != Some(&self.active));
        ShardView {
            me: self.name.clone(),
            until: self.until,
            held: self.held.clone(),
            rivals: rivals.map(|(name, other)| (name.clone(), other.ring.clone())).collect(),
        }
    }

    /// Returns the timeout of the next request.
    pub(crate) fn patience(&self) -> Duration {
        self.timing.request()
    }

    /// Returns the next step.
    pub(crate) fn next(&mut self, now: Instant, wall: Timestamp) -> MembershipStep {
        self.lapse(now);
        if let Some(rest) = self.rest {
            if now < rest {
                // The end of the lease is noticed when it comes.
                return MembershipStep::Wait(self.until.map_or(rest, |until| rest.min(until)) - now);
            }
            self.rest = None;
        }
        let garbage = if self.todo == NextTask::Collect { self.garbage(now) } else { None };
        match (self.todo, garbage) {
            (NextTask::List, _) => {
                self.pending = Some(PendingRequest { at: now, ring: None });
                MembershipStep::List
            }
            (NextTask::Collect, Some((name, version))) => {
                self.pending = Some(PendingRequest { at: now, ring: None });
                MembershipStep::Delete { name, version }
            }
            (NextTask::Collect, None) => {
                self.rest_before(NextTask::Write, now);
                MembershipStep::Wait(self.timing.retry_period)
            }
            (NextTask::Write, _) => self.write(now, wall),
        }
    }

    /// Handles the result of the last step, at `now`, which is after the response.
    pub(crate) fn answer(&mut self, answer: MembershipResult, now: Instant) {
        self.lapse(now);
        let Some(pending) = self.pending.take() else { return };
        match (answer, pending.ring) {
            (MembershipResult::Written { record, version }, Some(ring)) => {
                self.mine = Some((record, version));
                self.on_server = Some(ring);
                let until = pending.at + self.timing.renew_deadline;
                if !self.ended && now < until {
                    self.until = Some(until);
                }
                self.todo = NextTask::List;
            }
            (MembershipResult::Listed(seen), _) => self.listed(seen, pending.at, now),
            (_, Some(_)) => {
                self.mine = None;
                self.missing = false;
                self.on_server = None;
                self.rest_before(NextTask::List, now);
            }
            _ => {
                // A failed list does not keep the lease from being renewed.
                let next = if self.mine.is_some() { NextTask::Write } else { NextTask::List };
                self.rest_before(next, now);
            }
        }
    }

    /// Owns nothing from now on.
    pub(crate) fn stop(&mut self) {
        self.ended = true;
        self.held.clear();
        self.until = None;
        self.rest = None;
        if self.pending.take().is_some_and(|pending| pending.ring.is_some()) {
            self.mine = None;
            self.missing = false;
        }
    }

    /// Returns the next step to leave after [`stop`](Self::stop); `None` when it is done.
    pub(crate) fn surrender(&mut self, now: Instant, wall: Timestamp) -> Option<MembershipStep> {
        let Some((record, _)) = &self.mine else {
            if self.missing {
                return None;
            }
            self.pending = Some(PendingRequest { at: now, ring: None });
            return Some(MembershipStep::List);
        };
        if record.holder.is_empty() {
            return None;
        }
        let record = record.released(wall);
        self.pending = Some(PendingRequest { at: now, ring: Some(self.active.clone()) });
        Some(MembershipStep::Replace(record, self.active.text()))
    }

    /// An expired lease grants no keys, and none return by themselves: all leases must be listed again.
    fn lapse(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until) {
            self.until = None;
            self.held.clear();
        }
    }

    fn write(&mut self, now: Instant, wall: Timestamp) -> MembershipStep {
        self.pending = Some(PendingRequest { at: now, ring: Some(self.active.clone()) });
        let base = self.mine.as_ref().map(|(record, _)| record);
        let record = LeaseRecord {
            holder: self.identity.clone(),
            seconds: self.timing.lease_seconds(),
            acquired: base.and_then(|record| record.acquired).or(Some(wall)),
            renewed: Some(base.map_or(wall, |record| record.renewal(wall))),
            transitions: base.map_or(0, |record| record.transitions),
        };
        let text = self.active.text();
        match base {
            Some(_) => MembershipStep::Replace(record, text),
            None => MembershipStep::Create(record, text),
        }
    }

    fn listed(&mut self, seen: Vec<ListedLease>, requested_at: Instant, now: Instant) {
        for other in self.others.values_mut() {
            other.listed = false;
        }
        let mut mine = None;
        for lease in seen {
            if lease.name == self.name {
                mine = Some((lease.record, lease.version));
                continue;
            }
            match self.others.get_mut(&lease.name) {
                Some(other) if other.version == lease.version => other.listed = true,
                _ => {
                    let ListedLease { name, version, record, ring } = lease;
                    let ring = ring.map(Arc::new);
                    self.others
                        .insert(name, OtherMember { version, record, ring, at: now, listed: true, expired: false });
                }
            }
        }
        for other in self.others.values_mut() {
            // Up to the time before the list was requested: everything that the other wrote in its time is in the list.
            other.expired = requested_at >= other.at + other.record.duration();
        }
        self.others.retain(|_, other| other.listed || other.may_work());

        if mine.as_ref().is_none_or(|(record, _)| record.holder != self.identity) {
            // The lease was deleted. Others may no longer wait for this member.
            self.on_server = None;
            self.held.clear();
        }
        self.missing = mine.is_none();
        self.mine = mine;
        let confirmed = self.on_server.clone().filter(|_| self.until.is_some() && !self.ended);
        if let Some(ring) = &confirmed {
            self.held = vec![ring.clone()];
        }
        let members = self.others.iter().filter(|(_, other)| other.listed && other.may_work()).map(|(name, _)| name);
        let active = Ring::new(members.chain([&self.name]).cloned());
        if active != *self.active {
            self.active = Arc::new(active);
        }
        if !self.held.is_empty() && !self.held.contains(&self.active) {
            self.held.push(self.active.clone());
        }
        let published = self.on_server.as_ref() == Some(&self.active);
        self.todo = if published && self.until.is_some() { NextTask::Collect } else { NextTask::Write };
    }

    /// Returns a long-expired lease that this member should delete.
    fn garbage(&self, now: Instant) -> Option<(Arc<str>, String)> {
        let over = self.others.iter().find(|(name, other)| {
            let kept = other.record.duration().max(self.timing.lease_duration) * KEPT;
            let gone = other.listed && !other.may_work() && now >= other.at + kept;
            gone && self.active.claims(&self.name, KeyHash::of_name(name))
        });
        over.map(|(name, other)| (name.clone(), other.version.clone()))
    }

    fn rest_before(&mut self, todo: NextTask, now: Instant) {
        self.todo = todo;
        self.rest = Some(now + self.timing.retry_period);
    }
}

impl OtherMember {
    /// Returns whether the member may still own keys.
    fn may_work(&self) -> bool {
        !self.expired && !self.record.holder.is_empty()
    }
}

#[cfg(test)]
mod tests;
