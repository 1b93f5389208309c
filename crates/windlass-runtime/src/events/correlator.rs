//! What is written of what was recorded, and when, without a network.
//!
//! The first occurrence is an Event. Later ones of the same [series](Occurrence::series_key) only count: the second is
//! written at once, the rest from time to time and when the series has ended, which is when nothing was recorded for
//! six minutes. Memory is bounded: series and allowances that were not used for longest are forgotten.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::events::v1::{Event, EventSeries},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use tokio::time::Instant;

use super::{event::Occurrence, recent::Recent};
use crate::token_bucket::TokenBucket;

/// As many series, and allowances, as client-go keeps.
const CAPACITY: usize = 4096;
/// New events about one object by one reporter: so many at once, and one each so often. As client-go has it.
const SOURCE_BURST: u32 = 25;
const SOURCE_EVERY: Duration = Duration::from_secs(300);
/// Writes of all kinds: a hundred at once and ten a second, which no API server notices.
const WRITE_BURST: u32 = 100;
const WRITE_EVERY: Duration = Duration::from_millis(100);
/// A series without news for so long has ended. As client-go has it.
const SERIES_END: Duration = Duration::from_secs(6 * 60);
/// How often the count of a series is written.
const SERIES_UPDATE: Duration = Duration::from_secs(30);
/// How often a write is tried. As client-go has it.
const TRIES: u32 = 12;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Why something that was recorded will not be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dropped {
    /// More is recorded than is written.
    QueueFull,
    /// Too many different events about one object.
    RateLimited,
    /// The server would not or did not take it.
    Rejected,
    /// The server could not be reached.
    GivenUp,
    /// Too many series at once.
    Evicted,
}

/// A request to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Create(Box<Event>),
    /// A merge patch of a series.
    Count {
        namespace: String,
        name: String,
        series: EventSeries,
    },
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    Write(Write),
    /// Nothing before then.
    Wait(Instant),
    /// Nothing until something is recorded or time has passed.
    Idle,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// There is no such Event to count in: it has expired.
    Missing,
    /// There is one already: an earlier try had arrived.
    Exists,
    /// Trying again is of no use.
    Rejected,
    /// Trying again may help.
    Failed,
}

#[derive(Debug)]
pub(super) struct Correlator {
    series: Recent<Series>,
    allowances: Recent<TokenBucket>,
    writes: TokenBucket,
    /// Series to be written, each with its number in order.
    queue: VecDeque<(u64, Arc<str>)>,
    queued: u64,
    writing: Option<Writing>,
    /// No writes before then: the server is in trouble.
    pause: Option<Instant>,
    /// How often a write is tried; once when there is no time left.
    tries: u32,
    last_name: i128,
}

#[derive(Debug)]
struct Series {
    event: Event,
    count: i32,
    last: Timestamp,
    last_at: Instant,
    /// The count that the server has; zero while it has no such Event.
    written: i32,
    written_at: Instant,
    queued: bool,
    tries: u32,
}

#[derive(Debug)]
struct Writing {
    number: u64,
    key: Arc<str>,
    count: i32,
}

impl Correlator {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            series: Recent::new(CAPACITY),
            allowances: Recent::new(CAPACITY),
            writes: TokenBucket::every(WRITE_EVERY, WRITE_BURST, now),
            queue: VecDeque::new(),
            queued: 0,
            writing: None,
            pause: None,
            tries: TRIES,
            last_name: 0,
        }
    }

    /// Something happened. The error is for the counters: `observe` never fails otherwise.
    pub(super) fn observe(&mut self, occurrence: &Occurrence, now: Instant) -> Result<(), Dropped> {
        if !occurrence.is_valid() {
            return Err(Dropped::Rejected);
        }
        let key = occurrence.series_key();
        if let Some(series) = self.series.get_mut(&key) {
            series.count = series.count.saturating_add(1);
            series.last = occurrence.at;
            series.last_at = now;
            if series.is_due(now) {
                self.enqueue(key);
            }
            return Ok(());
        }
        let source = occurrence.source_key();
        let allowed = match self.allowances.get_mut(&source) {
            Some(tokens) => tokens.take_now(now).is_ok(),
            None => {
                let mut tokens = TokenBucket::every(SOURCE_EVERY, SOURCE_BURST, now);
                let allowed = tokens.take_now(now).is_ok();
                self.allowances.insert(source.into(), tokens);
                allowed
            }
        };
        if !allowed {
            return Err(Dropped::RateLimited);
        }
        self.last_name = occurrence.at.as_nanosecond().max(self.last_name + 1);
        let series = Series {
            event: occurrence.event(self.last_name),
            count: 1,
            last: occurrence.at,
            last_at: now,
            written: 0,
            written_at: now,
            queued: false,
            tries: 0,
        };
        let evicted = self.series.insert(key.clone(), series);
        self.enqueue(key);
        if self.queue.len() > 2 * CAPACITY {
            let series = &mut self.series;
            self.queue.retain(|(_, key)| series.peek_mut(key).is_some());
        }
        match evicted {
            Some(series) if series.count > series.written => Err(Dropped::Evicted),
            _ => Ok(()),
        }
    }

    /// To be called from time to time: queues counts that are due, and forgets series that have ended.
    pub(super) fn tick(&mut self, now: Instant) {
        self.enqueue_if(|series| series.is_due(now));
        self.series.retain(|series| {
            let ended = now.saturating_duration_since(series.last_at) >= SERIES_END;
            !ended || series.count > series.written
        });
    }

    /// Queues every count that the server does not have. Answers a number for [`is_settled`](Self::is_settled).
    pub(super) fn hurry(&mut self) -> u64 {
        self.enqueue_if(|series| series.count > series.written);
        self.queued
    }

    /// From now on there is no time to try again.
    pub(super) fn close(&mut self) {
        self.tries = 1;
        self.pause = None;
        self.hurry();
    }

    /// Whether everything that was queued up to a number is written or given up.
    pub(super) fn is_settled(&self, number: u64) -> bool {
        let writing = self.writing.as_ref().map(|writing| writing.number);
        !writing.into_iter().chain(self.queue.front().map(|(number, _)| *number)).any(|first| first <= number)
    }

    /// What to write now. One write at a time: [`written`](Self::written) comes before the next.
    pub(super) fn next_write(&mut self, now: Instant) -> Next {
        if self.writing.is_some() {
            return Next::Idle;
        }
        // What was forgotten meanwhile is not written.
        while self.queue.front().is_some_and(|(_, key)| self.series.peek_mut(key).is_none_or(|series| !series.queued)) {
            self.queue.pop_front();
        }
        if self.queue.is_empty() {
            return Next::Idle;
        }
        if let Some(pause) = self.pause
            && now < pause
        {
            return Next::Wait(pause);
        }
        if let Err(wait) = self.writes.take_now(now) {
            return Next::Wait(now + wait);
        }
        let Some((number, key)) = self.queue.pop_front() else { return Next::Idle };
        let series = self.series.peek_mut(&key).expect("a queued series must be known");
        series.queued = false;
        let write = series.write();
        self.writing = Some(Writing { number, key, count: series.count });
        Next::Write(write)
    }

    /// What came of the write. `chance` is from 0 to 1.
    pub(super) fn written(&mut self, outcome: Outcome, now: Instant, chance: f64) -> Result<(), Dropped> {
        let Some(Writing { number, key, count }) = self.writing.take() else { return Ok(()) };
        let Some(series) = self.series.peek_mut(&key) else { return Ok(()) };
        if outcome != Outcome::Failed {
            self.pause = None;
        }
        let again = match outcome {
            Outcome::Written => {
                series.written = count;
                series.written_at = now;
                series.tries = 0;
                series.is_due(now)
            }
            Outcome::Exists => {
                series.written = 1;
                series.written_at = now;
                series.count > 1
            }
            Outcome::Missing | Outcome::Failed => true,
            Outcome::Rejected => false,
        };
        let failed = matches!(outcome, Outcome::Missing | Outcome::Failed | Outcome::Exists);
        series.tries += u32::from(failed);
        if outcome == Outcome::Missing {
            series.written = 0;
        }
        // Two answers that only correct what is believed of the server are followed even when there is no time left.
        let tries = if outcome == Outcome::Failed { self.tries } else { self.tries.max(3) };
        let hopeless = failed && again && series.tries >= tries;
        if outcome == Outcome::Rejected || hopeless {
            self.series.remove(&key);
            return Err(if hopeless { Dropped::GivenUp } else { Dropped::Rejected });
        }
        if outcome == Outcome::Failed {
            let delay = FIRST_RETRY.saturating_mul(1 << (series.tries - 1).min(10)).min(LONGEST_RETRY);
            self.pause = Some(now + delay.mul_f64(1.0 + 0.25 * chance.clamp(0.0, 1.0)));
        }
        if again && !series.queued {
            series.queued = true;
            self.queue.push_front((number, key));
        }
        Ok(())
    }

    fn enqueue(&mut self, key: Arc<str>) {
        let Some(series) = self.series.peek_mut(&key) else { return };
        series.queued = true;
        self.queued += 1;
        self.queue.push_back((self.queued, key));
    }

    fn enqueue_if(&mut self, wanted: impl Fn(&Series) -> bool) {
        let writing = self.writing.as_ref().map(|writing| (writing.key.clone(), writing.count));
        for (key, series) in self.series.iter_mut() {
            let on_its_way = writing.as_ref().is_some_and(|(other, count)| other == key && *count == series.count);
            if !series.queued && !on_its_way && wanted(series) {
                series.queued = true;
                self.queued += 1;
                self.queue.push_back((self.queued, key.clone()));
            }
        }
    }
}

impl Series {
    /// Whether its count should be written: the second at once, later ones from time to time.
    fn is_due(&self, now: Instant) -> bool {
        !self.queued
            && self.count > self.written
            && (self.written == 1 || now.saturating_duration_since(self.written_at) >= SERIES_UPDATE)
    }

    fn write(&self) -> Write {
        let series = EventSeries { count: self.count, last_observed_time: MicroTime(self.last) };
        if self.written > 0 {
            let metadata = &self.event.metadata;
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            return Write::Count { namespace: namespace.unwrap_or_default(), name: name.unwrap_or_default(), series };
        }
        let series = (self.count > 1).then_some(series);
        Write::Create(Box::new(Event { series, ..self.event.clone() }))
    }
}

#[cfg(test)]
mod tests;
