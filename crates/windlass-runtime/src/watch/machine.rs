//! What to ask for next, given what came: no input, no output, no clock.
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
//! Which revision a list asks for is client-go's rule, that servers are made for:
//!
//! | | revision | limit | why |
//! |---|---|---|---|
//! | first list | `0` | page size | any state will do, served from memory; servers ignore the limit then |
//! | after a desync | last known | none | not older than what is known; a limit would make it an exact read from disk |
//! | that is expired or unknown; the resource was away | none | page size | the newest state, read consistently, in pages |
//! | a page is expired | none | none | whole, so that it cannot happen again |
//!
//! A page that fails for any other reason is asked for again, not the whole list.

use std::time::Duration;

use tokio::time::Instant;

use super::{backoff::Backoff, decode::ListMeta, failure::Failure};

/// After so many failures of streaming the state in a row, it is listed.
const STREAMING_TRIES: u32 = 3;
/// After so many streams of the state that fell silent in a row, the server is taken for one that does not have them.
const STALLS: u32 = 2;
/// After so many refusals of a watch from the same revision, the state is fetched anew: the revision may be the reason.
const WATCH_TRIES: u32 = 5;
/// How often a resource that is not served is asked for: at first, and at most. A definition is mostly created moments
/// after or before its operator; and two seconds are soon enough later on. A 404 costs a server next to nothing.
const ABSENT_POLL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));

/// What to ask a server for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A list or a page of one. What was collected before counts only if `token` is there.
    List { revision: String, token: Option<String>, limit: Option<u32> },
    /// The state as a stream of events, and then changes.
    StreamedList { revision: String },
    /// Changes after a revision.
    Watch { revision: String },
}

/// What a page was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// There are more pages.
    More,
    /// It was the last one. The revision of the state.
    Complete(String),
}

/// What follows a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Before the next request.
    pub(super) wait: Duration,
    /// The resource was served until now, or it was not known, and is not served.
    pub(super) became_absent: bool,
}

#[derive(Debug)]
pub(super) struct StateMachine {
    settings: Settings,
    state: State,
    /// The last known revision; empty at first.
    revision: String,
    /// Lists at the last known revision do not work, or must not be trusted.
    read_newest: bool,
    /// A token expired: no more pages in this sync.
    read_whole: bool,
    streaming_rejected: bool,
    streaming_failures: u32,
    /// Streams of the state that fell silent, since one was complete.
    stalls: u32,
    watch_failures: u32,
    /// How often the resource was asked for while it was not served.
    absent: Option<u32>,
    /// The last answer was that the resource is not served, and the one before it was not.
    doubted: bool,
    backoff: Backoff,
    /// Of watches whose revision expired.
    expiries: Backoff,
}

/// What does not change.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) page_size: u32,
    pub(super) streaming_list: bool,
    pub(super) short_watch: Duration,
    /// A random number between 0 and 1.
    pub(super) random: fn() -> f64,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Sync,
    /// The revision is that of the first page: should a server let later pages be newer, the watch brings what is
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

    /// What to ask for.
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

    /// A page came, all of it.
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

    /// The stream of the state is complete; changes follow.
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

    /// A change or a bookmark came, after the state was complete. True if it is news.
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

    /// A watch ended or its connection broke, after the time it lasted. `moved`: it brought something. The wait before
    /// the next request; none if all is well, `Err` if the watch was too short to be of use.
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

    /// A request failed, or a watch did after it had begun.
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
            // The server took it for an ordinary watch; or it stalled, which is no reason to never try again.
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

    /// Whether the state is being streamed.
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
        // One such answer can be a mistake, of a proxy or of a server that has just been started, and much would be
        // taken for gone.
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
        // Another server may still remember what was there before.
        self.read_newest = true;
        let wait = first.saturating_mul(1 << tries.min(8)).min(most);
        Verdict { wait: wait.mul_f64(0.9 + 0.1 * (self.settings.random)()), became_absent }
    }

    fn expired(&mut self, too_large: bool, now: Instant) -> Duration {
        match std::mem::replace(&mut self.state, State::Sync) {
            // At once after an outage, however long that made the waits; but a server whose watches always expire is
            // not to be asked for its whole state all the time.
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
