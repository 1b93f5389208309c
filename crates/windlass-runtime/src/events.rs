//! Event recorder: events as shown by `kubectl describe`.
//!
//! [`Recorder::record`] queues an event and returns. A task writes it, so that a reconcile never waits for events and
//! never fails because of them:
//! - **Deduplicated**: an event that occurs again (with the same reporter, object, type, reason and action; the note
//!   may differ) is counted in the series of the first Event. The second occurrence is written at once, later ones
//!   every half minute and when the series has ended (after six minutes of silence).
//! - **Rate-limited**: 25 different events about one object, then one every five minutes; ten writes per second
//!   overall.
//! - **Bounded**: at most a thousand occurrences are queued, and four thousand series are kept. Everything beyond
//!   that is dropped and [counted](EventMetrics).
//! - **Retried**: while the API server cannot be reached, writes are retried with backoff, a dozen times. Events that
//!   it rejects (for an object in a namespace that is being deleted) are dropped.
//!
//! Events need no leadership: they say what this process did. The role needs `create` and `patch` on `events` of
//! `events.k8s.io`.
//!
//! An operator whose users expect an Event for each note, with a count, as written by kube-controller-manager and by
//! most operators in Go, chooses [`EventStyle::Counted`].

mod correlator;
mod counted;
mod event;
mod metrics;
mod recent;
mod recorder;
mod writer;

pub use metrics::EventMetrics;
pub use recorder::{EventStyle, EventType, Recorder};
