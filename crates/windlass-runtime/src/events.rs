//! What people see in `kubectl describe`: events of `events.k8s.io`.
//!
//! [`Recorder::record`] puts what happened into a queue and returns. A task writes it, so that a reconcile never waits
//! for events and never fails because of them:
//! - **Deduplicated**: what happens again (same reporter, object, type, reason and action; the note may differ) is
//!   counted in the first Event's series instead of being another Event. Two occurrences are written at once, later
//!   ones every half minute and when the series has ended (six minutes of silence).
//! - **Limited**: 25 different events about one object, then one in five minutes; ten writes a second over all.
//! - **Bounded**: a thousand occurrences wait at most, four thousand series are remembered. What does not fit is
//!   dropped and [counted](EventMetrics).
//! - **Patient**: while the server cannot be reached, writes are tried again, a dozen times, ever later. What it
//!   refuses (an object in a namespace that is being deleted) is dropped.
//!
//! Events need no leadership: they say what this process did. A role needs `create` and `patch` on `events` of
//! `events.k8s.io`.

mod correlator;
mod event;
mod metrics;
mod recent;
mod recorder;
mod writer;

pub use metrics::EventMetrics;
pub use recorder::{EventType, Recorder};
