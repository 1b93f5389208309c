//! The queue as a plain state machine: no tasks, no locks, time from outside.
//!
//! A known key is in exactly one place: ready, delayed, or held by a worker (and then perhaps wanted again). A key that
//! is in none of them is dropped, including its failures.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Priority, RateLimit,
    rate_limit::Random,
    ready::Ready,
    slots::{Slot, Slots},
    stats::Stats,
};
use crate::{
    controller::{Causes, OwnChanges},
    token_bucket::TokenBucket,
};

/// A delay longer than any process runs, but short enough to be added to any clock.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

pub(super) struct State<T> {
    known: Slots<T, Known>,
    ready: Ready,
    /// Keys by the time at which they become ready, then by the order in which they were delayed.
    delayed: BTreeMap<Deadline, Slot>,
    /// Keys that workers have, by the time at which they got them.
    held: BTreeSet<(Instant, Slot)>,
    /// Number of held keys that will be ready as soon as their worker is done.
    wanted_again: usize,
    delays: u64,
    limit: RateLimit,
    tokens: Option<TokenBucket>,
    random: Random,
    closed: bool,
    stats: Stats,
}

type Deadline = (Instant, u64);

struct Known {
    priority: Priority,
    /// Consecutive failures.
    failures: u32,
    /// Causes for which it was added since a worker last took it.
    causes: Causes,
    /// Resource version up to which its own events do not shorten its delay; 0 for none.
    quiet_up_to: u64,
    place: Place,
}

enum Place {
    Ready { since: Instant },
    Delayed { until: Deadline, retry: Option<Retry> },
    Held { since: Instant, again: Option<Again> },
}

/// A delay that is a backoff.
#[derive(Clone, Copy)]
struct Retry {
    /// Whether it waits for a token.
    token: bool,
}

/// Requeue of a held key when its worker is done.
#[derive(Clone, Copy)]
struct Again {
    priority: Priority,
    /// Time at which it was first requested.
    since: Instant,
    at: When,
}

/// Due time of a key. Lower values are sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum When {
    Now,
    At(Instant),
}

impl When {
    pub(super) fn after(now: Instant, delay: Duration) -> Self {
        if delay.is_zero() { Self::Now } else { Self::At(now + delay.min(FOREVER)) }
    }
}

/// Result of a worker for a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    /// Success.
    Done,
    /// Success, with a requeue after a delay.
    After(Duration),
    /// Failure.
    Retry,
    /// Failure, with a delay of its own instead of the backoff.
    RetryAfter(Duration),
}

/// A key for a worker.
pub(super) struct Taken<T> {
    pub(super) slot: Slot,
    pub(super) key: T,
    pub(super) priority: Priority,
    pub(super) failures: u32,
    pub(super) causes: Causes,
}

impl<T: Clone + Eq + Hash> State<T> {
    pub(super) fn new(limit: RateLimit, seed: u64, now: Instant) -> Self {
        Self {
            known: Slots::new(),
            ready: Ready::default(),
            delayed: BTreeMap::new(),
            held: BTreeSet::new(),
            wanted_again: 0,
            delays: 0,
            tokens: limit.overall.map(|bucket| bucket.tokens(now)),
            limit,
            random: Random(seed),
            closed: false,
            stats: Stats::default(),
        }
    }

    /// Adds a key, or makes a present one sooner or more urgent.
    #[cfg(test)]
    pub(super) fn add(&mut self, now: Instant, key: T, priority: Priority, when: When) {
        self.add_caused(now, key, priority, when, Causes::default());
    }

    /// Adds a key, or makes a present one sooner or more urgent, with a reason for the worker.
    pub(super) fn add_caused(&mut self, now: Instant, key: T, priority: Priority, when: When, causes: Causes) {
        if self.closed {
            return;
        }
        self.ripen(now);
        if when != When::Now {
            self.stats.retries += 1;
        }
        // A new key starts without a holder, and is then placed like one whose worker is done.
        let place = || Place::Held { since: now, again: None };
        let known = || Known { priority, failures: 0, causes: Causes::default(), quiet_up_to: 0, place: place() };
        let (slot, new) = self.known.find_or_insert(key, known);
        if new {
            self.known.get_mut(slot).causes = causes;
            return self.place(now, slot, Again { priority, since: now, at: when });
        }
        let known = self.known.get_mut(slot);
        if matches!(known.place, Place::Delayed { .. }) && causes.is_event_up_to(known.quiet_up_to) {
            return;
        }
        known.causes.add(causes);
        match &mut known.place {
            Place::Ready { .. } => {
                if priority > known.priority {
                    self.ready.remove(slot, known.priority);
                    known.priority = priority;
                    self.ready.push(slot, priority);
                }
            }
            Place::Delayed { until, retry } => {
                let (until, retry) = (*until, *retry);
                let priority = known.priority.max(priority);
                known.priority = priority;
                let kept = retry.is_some() && self.limit.keep_backoff;
                if !kept && when < When::At(until.0) {
                    known.causes.forget_delayed();
                    self.delayed.remove(&until);
                    if let (Some(Retry { token: true }), Some(tokens)) = (retry, &mut self.tokens) {
                        tokens.give_back();
                    }
                    self.place(now, slot, Again { priority, since: now, at: when });
                }
            }
            Place::Held { again, .. } => {
                let before = again.is_some_and(|again| again.at == When::Now);
                let wanted = Again { priority, since: now, at: when };
                *again = Some(again.map_or(wanted, |again| again.or(wanted)));
                self.wanted_again += usize::from(!before && when == When::Now);
            }
        }
    }

    /// Takes the next key. It is held until [`State::finish`].
    pub(super) fn pop(&mut self, now: Instant) -> Option<Taken<T>> {
        self.ripen(now);
        let slot = self.ready.pop()?;
        let known = self.known.get_mut(slot);
        if let Place::Ready { since } = known.place {
            self.stats.queued.observe(now.saturating_duration_since(since));
        }
        known.place = Place::Held { since: now, again: None };
        known.quiet_up_to = 0;
        let (priority, failures, causes) = (known.priority, known.failures, std::mem::take(&mut known.causes));
        self.held.insert((now, slot));
        Some(Taken { slot, key: self.known.key(slot).clone(), priority, failures, causes })
    }

    /// Ignores requests for a held key that its own changes explain, and those that arrive while it is delayed.
    pub(super) fn disregard(&mut self, slot: Slot, own: OwnChanges) {
        let known = self.known.get_mut(slot);
        known.quiet_up_to = own.up_to;
        if let Place::Held { again, .. } = &mut known.place
            && again.is_some_and(|again| again.at == When::Now)
            && known.causes.are_explained_by(own)
        {
            *again = None;
            known.causes = Causes::default();
            self.wanted_again -= 1;
        }
    }

    /// Ends the work on a held key, and queues it again if necessary.
    pub(super) fn finish(&mut self, now: Instant, slot: Slot, verdict: Verdict) {
        self.ripen(now);
        let known = self.known.get_mut(slot);
        let Place::Held { since, again } = known.place else { unreachable!("a finished key is held") };
        self.held.remove(&(since, slot));
        self.stats.worked.observe(now.saturating_duration_since(since));
        if again.is_some_and(|again| again.at == When::Now) {
            self.wanted_again -= 1;
        }
        let priority = known.priority;
        let wanted = |delay| Again { priority, since: now, at: When::after(now, delay) };
        // A closed queue finishes the work that was requested before, and ignores requests of its workers.
        let verdict = if self.closed { Verdict::Done } else { verdict };
        // Unless something else comes first.
        if again.is_none_or(|again| again.at != When::Now) {
            match verdict {
                Verdict::Done => {}
                Verdict::After(_) => known.causes.add(Causes::requeue()),
                Verdict::Retry | Verdict::RetryAfter(_) => known.causes.add(Causes::retry()),
            }
        }
        match verdict {
            Verdict::Done => known.failures = 0,
            Verdict::After(_) => {
                known.failures = 0;
                self.stats.retries += 1;
            }
            Verdict::Retry | Verdict::RetryAfter(_) => {
                known.failures = known.failures.saturating_add(1);
                self.stats.retries += 1;
            }
        }
        let next = match verdict {
            Verdict::Done => again,
            Verdict::RetryAfter(delay) => {
                let delay = self.limit.lengthened(delay, self.random.next());
                Some(again.map_or(wanted(delay), |again| again.or(wanted(delay))))
            }
            Verdict::After(delay) => Some(again.map_or(wanted(delay), |again| again.or(wanted(delay)))),
            Verdict::Retry => return self.back_off(now, slot, again),
        };
        match next {
            Some(next) => self.place(now, slot, next),
            None => self.forget(slot),
        }
    }

    /// Delays a failed key. Requests while it was held make it sooner unless backoffs are kept.
    fn back_off(&mut self, now: Instant, slot: Slot, again: Option<Again>) {
        let known = self.known.get_mut(slot);
        let own = self.limit.backoff(known.failures, self.random.next()).min(self.limit.max);
        let priority = again.map_or(known.priority, |again| again.priority.max(known.priority));
        let sooner = again.filter(|again| again.at <= When::after(now, own) && !self.limit.keep_backoff);
        if let Some(again) = sooner {
            return self.place(now, slot, Again { priority, ..again });
        }
        let token = self.tokens.as_mut().map_or(Some(Duration::ZERO), |tokens| tokens.take(now, self.limit.max));
        let overall = token.unwrap_or_else(|| self.limit.longest(self.random.next()));
        self.place(now, slot, Again { priority, since: now, at: When::after(now, own.max(overall)) });
        if let Place::Delayed { retry, .. } = &mut self.known.get_mut(slot).place {
            *retry = Some(Retry { token: token.is_some_and(|wait| !wait.is_zero()) });
        }
    }

    /// Puts a key that is in no list where it belongs. A closed queue keeps only keys that are ready at once.
    fn place(&mut self, now: Instant, slot: Slot, wanted: Again) {
        let known = self.known.get_mut(slot);
        known.priority = wanted.priority;
        match wanted.at {
            When::At(until) if until > now => {
                if self.closed {
                    return self.forget(slot);
                }
                self.delays += 1;
                let until = (until, self.delays);
                known.place = Place::Delayed { until, retry: None };
                self.delayed.insert(until, slot);
            }
            _ => {
                known.place = Place::Ready { since: wanted.since };
                self.ready.push(slot, wanted.priority);
                self.stats.adds += 1;
            }
        }
    }

    /// Makes delayed keys ready that are due, in the order of their times.
    fn ripen(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry() {
            let since = first.key().0;
            if since > now {
                break;
            }
            let slot = first.remove();
            let known = self.known.get_mut(slot);
            known.place = Place::Ready { since };
            self.ready.push(slot, known.priority);
            self.stats.adds += 1;
        }
    }

    fn forget(&mut self, slot: Slot) {
        self.known.remove(slot);
        if self.known.shrink_if_empty() {
            self.ready.shrink();
        }
    }

    /// Accepts no more keys and drops delayed ones; also ready ones unless `drain`.
    pub(super) fn close(&mut self, now: Instant, drain: bool) {
        self.ripen(now);
        self.closed = true;
        let mut dropped: Vec<Slot> = std::mem::take(&mut self.delayed).into_values().collect();
        if !drain {
            dropped.extend(self.ready.clear());
            for (_, slot) in &self.held {
                if let Place::Held { again, .. } = &mut self.known.get_mut(*slot).place {
                    *again = None;
                }
            }
            self.wanted_again = 0;
        }
        for slot in dropped {
            self.forget(slot);
        }
    }

    /// Returns whether no more keys will be handed out.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.ready.len() == 0 && self.wanted_again == 0
    }

    /// Returns the number of ready keys.
    pub(super) fn ready(&mut self, now: Instant) -> usize {
        self.ripen(now);
        self.ready.len()
    }

    /// Returns the number of keys that were ready at the last known time.
    pub(super) fn ready_now(&self) -> usize {
        self.ready.len()
    }

    /// Returns when the next delayed key becomes ready.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((until, _), _)| *until)
    }

    pub(super) fn delayed(&self) -> usize {
        self.delayed.len()
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the current statistics.
    pub(super) fn stats(&mut self, now: Instant) -> Stats {
        self.ripen(now);
        let mut stats = self.stats.clone();
        // The usual priorities are reported even when nothing waits: a series that vanishes looks like a queue that was
        // removed.
        stats.depths = [(Priority::NORMAL, 0), (Priority::LOW, 0)].into_iter().chain(self.ready.depths()).collect();
        stats.unfinished = self.held.iter().map(|(since, _)| now.saturating_duration_since(*since)).sum();
        stats.longest = self.held.first().map_or(Duration::ZERO, |(since, _)| now.saturating_duration_since(*since));
        stats
    }

    /// Returns the number of known keys.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.known.len()
    }
}

impl Again {
    /// Combines two requests: the sooner time, and the higher priority.
    fn or(self, other: Self) -> Self {
        let at = self.at.min(other.at);
        // A request that becomes immediate only now waits from now on.
        let since = if self.at == at { self.since } else { other.since };
        Self { priority: self.priority.max(other.priority), since, at }
    }
}

#[cfg(test)]
mod tests;
