//! The state machine of list/watch, without I/O or a clock: it decides on the next request.
//!
//! ```text
//!            ┌───────────────── 410, unknown revision, 404, watch refused again and again ─┐
//!            v                                                                             │
//!  Sync ── stream of the state ── its end ──────────────────────────────────────────────> Watch ─┐
//!   │ ^                                                                                    ^ ^   │ ended, broke:
//!   │ └── refused: never again; failed thrice: not this time                               │ └───┘ from the
//!   └── list ── Page ── Page ── ... ── last page ──────────────────────────────────────────┘       last revision
//! ```
//!
//! The revision of a list follows client-go's rule, for which servers are optimised:
//!
//! | | revision | limit | why |
//! |---|---|---|---|
//! | first list | `0` | page size | any state will do, served from memory; servers ignore the limit then |
//! | after missed changes | last known | none | not older than what is known; a limit would make it an exact read from disk |
//! | that has expired or is unknown; the resource was not served | none | page size | the newest state, read consistently, in pages |
//! | a page has expired | none | none | in one page, so that it cannot happen again |
//!
//! A page that fails for any other reason is requested again, not the whole list.

use std::time::Duration;

use tokio::time::Instant;

use super::{backoff::Backoff, decode::ListMeta, failure::Failure};

/// Consecutive failures of streaming lists after which ordinary lists are used.
const STREAMING_TRIES: u32 = 3;
/// Consecutive silent streaming lists after which the server is assumed not to support them.
const STALLS: u32 = 2;
/// Consecutive errors of a watch from the same revision after which the state is fetched again, as the revision may be
/// the cause.
const WATCH_TRIES: u32 = 5;
/// First and longest interval in which a resource that is not served is polled. A CRD is usually created moments before
/// or after its operator starts, and two seconds are soon enough later on. A 404 costs a server next to nothing.
const ABSENT_POLL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A list, or a page of one. Pages collected before count only if there is a `token`.
    List { revision: String, token: Option<String>, limit: Option<u32> },
    /// A streaming list, followed by changes.
    StreamedList { revision: String },
    /// Changes after a revision.
    Watch { revision: String },
}

/// Result of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// There are more pages.
    More,
    /// The last page, with the revision of the state.
    Complete(String),
}

/// Reaction to a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Delay before the next request.
    pub(super) wait: Duration,
    /// Whether the resource is newly known not to be served.
    pub(super) became_absent: bool,
}

#[derive(Debug)]
pub(super) struct StateMachine {
    settings: Settings,
    state: State,
    /// The last known revision; empty at first.
    revision: String,
    /// Whether lists at the last known revision fail, or must not be trusted.
    read_newest: bool,
    /// Whether a token expired, so that this sync uses no more pages.
    read_whole: bool,
    streaming_rejected: bool,
    streaming_failures: u32,
    /// Silent streaming lists since the last complete one.
    stalls: u32,
    watch_failures: u32,
    /// Number of requests while the resource was not served.
    absent: Option<u32>,
    /// Whether only the last response reported that the resource is not served.
    doubted: bool,
    backoff: Backoff,
    /// Backoff of watches whose revision expired.
    expiries: Backoff,
}

/// Settings that do not change.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) page_size: u32,
    pub(super) streaming_list: bool,
    pub(super) short_watch: Duration,
    /// Returns a random number between 0 and 1.
    pub(super) random: fn() -> f64,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Sync,
    /// The revision is that of the first page: if a server lets later pages be newer, the watch delivers the changes in
    /// between.
    Page {
        token: String,
        revision: String,
    },
    Watch,
}

impl StateMachine {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Sync,
            revision: String::new(),
            read_newest: false,
            read_whole: false,
            streaming_rejected: false,
            streaming_failures: 0,
            stalls: 0,
            watch_failures: 0,
            absent: None,
            doubted: false,
            backoff: Backoff::default(),
            expiries: Backoff::default(),
        }
    }

    /// Returns the next request.
    pub(super) fn request(&self) -> Request {
        let page_size = Some(self.settings.page_size).filter(|size| *size > 0);
        match &self.state {
            State::Watch => Request::Watch { revision: self.revision.clone() },
            State::Page { token, .. } => {
                Request::List { revision: String::new(), token: Some(token.clone()), limit: page_size }
            }
            State::Sync if self.streams() => {
                Request::StreamedList { revision: if self.read_newest { String::new() } else { self.revision.clone() } }
            }
            State::Sync => {
                let (revision, limit) = match self.revision.as_str() {
                    _ if self.read_newest => ("", page_size.filter(|_| !self.read_whole)),
                    "" => ("0", page_size),
                    known => (known, None),
                };
                Request::List { revision: revision.into(), token: None, limit }
            }
        }
    }

    fn streams(&self) -> bool {
        self.settings.streaming_list && !self.streaming_rejected && self.streaming_failures < STREAMING_TRIES
    }

    /// A page was received completely.
    pub(super) fn listed(&mut self, meta: ListMeta) -> Listed {
        let revision = match &mut self.state {
            State::Page { revision, .. } => std::mem::take(revision),
            _ => meta.resource_version,
        };
        if meta.r#continue.is_empty() {
            self.complete(&revision);
            return Listed::Complete(revision);
        }
        self.state = State::Page { token: meta.r#continue, revision };
        Listed::More
    }

    /// A streaming list is complete; changes follow.
    pub(super) fn streamed(&mut self, revision: &str) {
        self.stalls = 0;
        self.complete(revision);
    }

    fn complete(&mut self, revision: &str) {
        self.state = State::Watch;
        self.set_revision(revision);
        self.read_newest = false;
        self.read_whole = false;
        self.streaming_failures = 0;
        self.watch_failures = 0;
        self.absent = None;
        self.doubted = false;
    }

    /// A change or a bookmark was received after the state was complete. Returns whether it is new.
    pub(super) fn seen(&mut self, revision: &str) -> bool {
        if revision.is_empty() || revision == self.revision {
            return false;
        }
        self.set_revision(revision);
        self.watch_failures = 0;
        true
    }

    fn set_revision(&mut self, revision: &str) {
        self.revision.clear();
        self.revision.push_str(revision);
    }

    /// A watch ended or its connection broke, after the time `lasted`. `moved`: it delivered something. Returns `Err`
    /// with a delay if the watch was too short to be useful.
    pub(super) fn ended(&mut self, lasted: Duration, moved: bool, now: Instant) -> Result<(), Duration> {
        if self.state != State::Watch {
            self.streaming_failures += 1;
            return Err(self.back_off(now));
        }
        if moved || lasted >= self.settings.short_watch {
            return Ok(());
        }
        Err(self.back_off(now))
    }

    /// A request failed, or a watch failed after it had begun.
    pub(super) fn failed(&mut self, failure: &Failure, now: Instant) -> Verdict {
        if !matches!(failure, Failure::NotServed) {
            self.doubted = false;
        }
        let wait = match failure {
            Failure::NotServed => return self.not_served(),
            Failure::Expired | Failure::TooLarge => self.expired(matches!(failure, Failure::TooLarge), now),
            Failure::UnreadableDeleted => {
                self.state = State::Sync;
                self.back_off(now)
            }
            Failure::Rejected { code: 400 | 405 | 406 | 415 | 422 | 501, .. } if self.is_streaming() => {
                self.streaming_rejected = true;
                Duration::ZERO
            }
            // The server treated it as an ordinary watch; or it stalled, in which case another attempt may succeed.
            Failure::Endless { sure } => {
                self.stalls += 1;
                self.streaming_rejected = *sure || self.stalls >= STALLS;
                self.streaming_failures = STREAMING_TRIES;
                Duration::ZERO
            }
            Failure::Rejected { retry_after, .. } => {
                self.count_refusal();
                self.back_off(now).max(retry_after.unwrap_or_default())
            }
            Failure::Decode(_) => {
                self.count_refusal();
                self.back_off(now)
            }
            Failure::Connection(_) | Failure::Silent(_) => {
                if self.is_streaming() {
                    self.streaming_failures += 1;
                }
                self.back_off(now)
            }
        };
        Verdict { wait, became_absent: false }
    }

    /// Returns whether a streaming list is in progress.
    fn is_streaming(&self) -> bool {
        self.state == State::Sync && self.streams()
    }

    fn count_refusal(&mut self) {
        match self.state {
            State::Sync if self.streams() => self.streaming_failures += 1,
            State::Watch => {
                self.watch_failures += 1;
                if self.watch_failures >= WATCH_TRIES {
                    self.state = State::Sync;
                }
            }
            _ => {}
        }
    }

    fn not_served(&mut self) -> Verdict {
        let (first, most) = ABSENT_POLL;
        // One such response can be a mistake of a proxy or of a server that has just started, and all objects would be
        // considered deleted.
        if !self.revision.is_empty() && !self.doubted {
            (self.doubted, self.read_newest, self.state) = (true, true, State::Sync);
            return Verdict { wait: first, became_absent: false };
        }
        self.doubted = false;
        let tries = self.absent.unwrap_or(0);
        let became_absent = self.absent.is_none();
        self.absent = Some(tries.saturating_add(1));
        self.state = State::Sync;
        self.revision.clear();
        // Another server may still have the previous state.
        self.read_newest = true;
        let wait = first.saturating_mul(1 << tries.min(8)).min(most);
        Verdict { wait: wait.mul_f64(0.9 + 0.1 * (self.settings.random)()), became_absent }
    }

    fn expired(&mut self, too_large: bool, now: Instant) -> Duration {
        match std::mem::replace(&mut self.state, State::Sync) {
            // At once after an outage, regardless of earlier delays; but a server whose watches always expire must not
            // be asked for its whole state all the time.
            State::Watch => {
                self.read_newest = too_large;
                let first = self.expiries.is_fresh(now);
                let wait = self.expiries.failed(now, (self.settings.random)());
                if first { Duration::ZERO } else { wait }
            }
            State::Page { .. } => {
                (self.read_newest, self.read_whole) = (true, true);
                Duration::ZERO
            }
            State::Sync if self.read_newest => self.back_off(now),
            State::Sync => {
                self.read_newest = true;
                Duration::ZERO
            }
        }
    }

    fn back_off(&mut self, now: Instant) -> Duration {
        self.backoff.failed(now, (self.settings.random)())
    }
}

#[cfg(test)]
mod tests;
