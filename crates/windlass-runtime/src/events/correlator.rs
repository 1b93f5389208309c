//! Decides which events to write and when, without a network. Similar to client-go's event correlator.
//!
//! The first occurrence is an Event. Later ones of the same [series](Occurrence::series_key) are only counted: the
//! second is written at once, the rest from time to time and when the series has ended, which is when nothing was
//! recorded for six minutes. A [counted](EventStyle::Counted) event is written for every occurrence instead, within its
//! rate limit. Memory is bounded: the least recently used series and rate limits are dropped.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::events::v1::{Event, EventSeries},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    EventStyle,
    counted::{CountedEvent, SimilarEvents},
    event::Occurrence,
    recent::Recent,
    recorder::EventClient,
};
use crate::token_bucket::TokenBucket;

/// Maximum number of series, and of rate limits, as in client-go.
const CAPACITY: usize = 4096;
/// Rate limit of new events about one object by one reporter: burst and period. As in client-go.
const SOURCE_BURST: u32 = 25;
const SOURCE_EVERY: Duration = Duration::from_secs(300);
/// Rate limit of all writes: a burst of a hundred, and ten per second, which is negligible for an API server.
const WRITE_BURST: u32 = 100;
const WRITE_EVERY: Duration = Duration::from_millis(100);
/// Time without an occurrence after which a series has ended. As in client-go.
const SERIES_END: Duration = Duration::from_secs(6 * 60);
/// Time without an occurrence after which a counted event is dropped: by then, the API server has deleted it.
const COUNTED_END: Duration = Duration::from_secs(3600);
/// Interval at which the count of a series is written.
const SERIES_UPDATE: Duration = Duration::from_secs(30);
/// Maximum number of attempts of a write. As in client-go.
const TRIES: u32 = 12;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Reason why an occurrence is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dropped {
    /// More events are recorded than written.
    QueueFull,
    /// Too many different events about one object.
    RateLimited,
    /// The API server rejected it.
    Rejected,
    /// The API server could not be reached.
    GivenUp,
    /// Too many series at once.
    Evicted,
}

/// A request to send.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Create(Box<Event>),
    /// A merge patch of a series.
    Count {
        namespace: String,
        name: String,
        series: EventSeries,
    },
    /// A counted event, as a whole or as a merge patch.
    Counted {
        namespace: String,
        name: String,
        creates: bool,
        body: Value,
    },
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    Write(Write),
    /// Nothing before this time.
    Wait(Instant),
    /// Nothing until something is recorded or time has passed.
    Idle,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// The Event to update does not exist: it has expired.
    Missing,
    /// The Event already exists: an earlier attempt had succeeded.
    Exists,
    /// A retry is useless.
    Rejected,
    /// A retry may help.
    Failed,
}

#[derive(Debug)]
pub(super) struct Correlator {
    series: Recent<Series>,
    allowances: Recent<TokenBucket>,
    similar: SimilarEvents,
    writes: TokenBucket,
    /// Series to write, with consecutive numbers.
    queue: VecDeque<(u64, Arc<str>)>,
    queued: u64,
    writing: Option<Writing>,
    /// Time before which nothing is written, as the API server has problems.
    pause: Option<Instant>,
    /// Maximum number of attempts; one if there is no time left.
    tries: u32,
    last_name: i128,
}

#[derive(Debug)]
struct Series {
    event: Recorded,
    /// The client that writes it, if it is not the writer's own.
    client: Option<EventClient>,
    count: i32,
    /// Count to write. It is smaller than the count if the rate limit has not admitted the last occurrences.
    admitted: i32,
    last: Timestamp,
    last_at: Instant,
    /// Count that the API server has; zero while the Event does not exist there.
    written: i32,
    written_at: Instant,
    queued: bool,
    tries: u32,
}

/// The Event of a series.
#[derive(Debug)]
enum Recorded {
    Series(Box<Event>),
    Counted(Box<CountedEvent>),
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
            similar: SimilarEvents::new(CAPACITY),
            writes: TokenBucket::every(WRITE_EVERY, WRITE_BURST, now),
            queue: VecDeque::new(),
            queued: 0,
            writing: None,
            pause: None,
            tries: TRIES,
            last_name: 0,
        }
    }

    /// Handles an occurrence. The error is only for the metrics.
    pub(super) fn observe(&mut self, occurrence: &Occurrence, now: Instant) -> Result<(), Dropped> {
        if !occurrence.is_valid() {
            return Err(Dropped::Rejected);
        }
        if occurrence.style == EventStyle::Counted {
            return self.count(occurrence, now);
        }
        let key = occurrence.series_key();
        if let Some(series) = self.series.get_mut(&key) {
            series.count = series.count.saturating_add(1);
            series.admitted = series.count;
            series.last = occurrence.at;
            series.last_at = now;
            if series.is_due(now) {
                self.enqueue(key);
            }
            return Ok(());
        }
        if !self.allows(occurrence, now) {
            return Err(Dropped::RateLimited);
        }
        let unique = self.unique_name(occurrence);
        let event = Recorded::Series(Box::new(occurrence.event(unique)));
        let series = Series { count: 1, admitted: 1, ..Series::new(event, occurrence, now) };
        self.add(key, series)
    }

    /// Handles an occurrence of a counted event. It is counted even if the rate limit does not admit it.
    fn count(&mut self, occurrence: &Occurrence, now: Instant) -> Result<(), Dropped> {
        let (key, note) = self.similar.correlate(occurrence, now);
        let admits = self.allows(occurrence, now);
        if self.series.get_mut(&key).is_none() {
            let unique = self.unique_name(occurrence);
            let event = Recorded::Counted(Box::new(CountedEvent::new(occurrence, unique)));
            let evicted = self.series.insert(key.clone(), Series::new(event, occurrence, now));
            if evicted.is_some_and(|series| series.is_pending()) {
                tracing::debug!("dropping an event, as too many are remembered");
            }
        }
        let series = self.series.peek_mut(&key).expect("it was found or inserted");
        series.count = series.count.saturating_add(1);
        series.last_at = now;
        if !admits {
            return Err(Dropped::RateLimited);
        }
        series.admitted = series.count;
        if let Recorded::Counted(event) = &mut series.event {
            event.happened(&note, occurrence.at);
        }
        if series.is_due(now) {
            self.enqueue(key);
        }
        Ok(())
    }

    /// Takes from the allowance of new events about an object.
    fn allows(&mut self, occurrence: &Occurrence, now: Instant) -> bool {
        let source = occurrence.source_key();
        if let Some(tokens) = self.allowances.get_mut(&source) {
            return tokens.take_now(now).is_ok();
        }
        let mut tokens = TokenBucket::every(SOURCE_EVERY, SOURCE_BURST, now);
        let allowed = tokens.take_now(now).is_ok();
        self.allowances.insert(source.into(), tokens);
        allowed
    }

    fn unique_name(&mut self, occurrence: &Occurrence) -> i128 {
        self.last_name = occurrence.at.as_nanosecond().max(self.last_name + 1);
        self.last_name
    }

    /// Adds a series and queues it.
    fn add(&mut self, key: Arc<str>, series: Series) -> Result<(), Dropped> {
        let evicted = self.series.insert(key.clone(), series);
        self.enqueue(key);
        if self.queue.len() > 2 * CAPACITY {
            let series = &mut self.series;
            self.queue.retain(|(_, key)| series.peek_mut(key).is_some());
        }
        match evicted {
            Some(series) if series.is_pending() => Err(Dropped::Evicted),
            _ => Ok(()),
        }
    }

    /// Queues counts that are due, and drops series that have ended. Must be called regularly.
    pub(super) fn tick(&mut self, now: Instant) {
        self.enqueue_if(|series| series.is_due(now));
        self.series.retain(|series| {
            let ended = now.saturating_duration_since(series.last_at) >= series.event.ends_after();
            !ended || series.is_pending()
        });
    }

    /// Queues every count that the API server does not have. Returns a number for [`is_settled`](Self::is_settled).
    pub(super) fn hurry(&mut self) -> u64 {
        self.enqueue_if(Series::is_pending);
        self.queued
    }

    /// There is no time for retries from now on.
    pub(super) fn close(&mut self) {
        self.tries = 1;
        self.pause = None;
        self.hurry();
    }

    /// Returns whether everything that was queued up to a number is written or dropped.
    pub(super) fn is_settled(&self, number: u64) -> bool {
        let writing = self.writing.as_ref().map(|writing| writing.number);
        !writing.into_iter().chain(self.queue.front().map(|(number, _)| *number)).any(|first| first <= number)
    }

    /// Returns the next write. Writes are sequential: [`written`](Self::written) must be called before the next.
    pub(super) fn next_write(&mut self, now: Instant) -> Next {
        if self.writing.is_some() {
            return Next::Idle;
        }
        // Skip series that were dropped in the meantime.
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
        let series = self.series.peek_mut(&key).expect("a queued series is known");
        series.queued = false;
        let write = series.write();
        self.writing = Some(Writing { number, key, count: series.admitted });
        Next::Write(write)
    }

    /// Returns the client for the current write, unless it is the writer's default client.
    pub(super) fn client(&mut self) -> Option<EventClient> {
        self.series.peek_mut(&self.writing.as_ref()?.key)?.client.clone()
    }

    /// Handles the result of the write. `chance` is from 0 to 1.
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
                series.admitted > 1
            }
            Outcome::Missing | Outcome::Failed => true,
            Outcome::Rejected => false,
        };
        let failed = matches!(outcome, Outcome::Missing | Outcome::Failed | Outcome::Exists);
        series.tries += u32::from(failed);
        if outcome == Outcome::Missing {
            series.written = 0;
        }
        // Two responses that only correct the known state of the API server are followed even if there is no time left.
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
            let on_its_way = writing.as_ref().is_some_and(|(other, count)| other == key && *count == series.admitted);
            if !series.queued && !on_its_way && wanted(series) {
                series.queued = true;
                self.queued += 1;
                self.queue.push_back((self.queued, key.clone()));
            }
        }
    }
}

impl Series {
    /// Returns a series without occurrences.
    fn new(event: Recorded, occurrence: &Occurrence, now: Instant) -> Self {
        Self {
            event,
            client: occurrence.client.clone(),
            count: 0,
            admitted: 0,
            last: occurrence.at,
            last_at: now,
            written: 0,
            written_at: now,
            queued: false,
            tries: 0,
        }
    }

    /// Returns whether the API server lacks occurrences.
    fn is_pending(&self) -> bool {
        self.admitted > self.written
    }

    /// Returns whether its count should be written: that of a counted event always, and that of a series the second
    /// time at once and later from time to time.
    fn is_due(&self, now: Instant) -> bool {
        let at_once = self.written == 1 || matches!(self.event, Recorded::Counted(_));
        let due = at_once || now.saturating_duration_since(self.written_at) >= SERIES_UPDATE;
        !self.queued && self.is_pending() && due
    }

    fn write(&self) -> Write {
        let event = match &self.event {
            Recorded::Series(event) => event,
            Recorded::Counted(event) => {
                let creates = self.written == 0;
                let body = if creates { event.body(self.admitted) } else { event.patch(self.admitted) };
                let (namespace, name) = (event.namespace().to_owned(), event.name().to_owned());
                return Write::Counted { namespace, name, creates, body };
            }
        };
        let series = EventSeries { count: self.admitted, last_observed_time: MicroTime(self.last) };
        if self.written > 0 {
            let metadata = &event.metadata;
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            return Write::Count { namespace: namespace.unwrap_or_default(), name: name.unwrap_or_default(), series };
        }
        let series = (self.admitted > 1).then_some(series);
        Write::Create(Box::new(Event { series, ..Event::clone(event) }))
    }
}

impl Recorded {
    /// Returns how long a series is kept without a new occurrence.
    fn ends_after(&self) -> Duration {
        match self {
            Self::Series(_) => SERIES_END,
            Self::Counted(_) => COUNTED_END,
        }
    }
}

#[cfg(test)]
mod tests;
