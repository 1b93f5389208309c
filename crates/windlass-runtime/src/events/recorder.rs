//! The handle that records.

use std::{fmt, sync::Arc};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::{mpsc, oneshot};

use super::{EventMetrics, correlator::Dropped, event::Occurrence, writer};

/// What waits to be looked at. A reconciler that records a thousand times before the writer runs once has other
/// problems.
const CAPACITY: usize = 1000;

/// Records events. A cheap handle; recording never waits and never fails.
///
/// ```no_run
/// # async fn example(client: kube::Client, foo: k8s_openapi::api::core::v1::ObjectReference) {
/// use windlass_runtime::events::{EventType, Recorder};
///
/// let recorder = Recorder::new(client, "foo-controller", "foo-controller-7d4b9");
/// recorder.record(&foo, EventType::Normal, "Synced", "Sync", "Foo synced successfully");
/// recorder.flush().await; // before the process ends
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder {
    reporter: Arc<str>,
    instance: Arc<str>,
    metrics: EventMetrics,
    writer: mpsc::Sender<Message>,
}

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody may want to look.
    Warning,
}

/// What the writer is told.
pub(super) enum Message {
    Happened(Box<Occurrence>),
    Flush(oneshot::Sender<()>),
}

impl EventType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Recorder {
    /// A recorder of a controller (`reporter`, as in `foo-controller`) in this process (`instance`, the pod's name).
    /// Events are written by a task that is spawned on the current tokio runtime and ends when the last clone is
    /// dropped and what was recorded is written.
    pub fn new(client: Client, reporter: &str, instance: &str) -> Self {
        Self::with_metrics(client, reporter, instance, EventMetrics::default())
    }

    /// A recorder that counts.
    pub fn with_metrics(client: Client, reporter: &str, instance: &str, metrics: EventMetrics) -> Self {
        let (writer, inbox) = mpsc::channel(CAPACITY);
        tokio::spawn(writer::run(client, inbox, metrics.clone()));
        Self { reporter: reporter.into(), instance: instance.into(), metrics, writer }
    }

    /// A recorder of another controller in this process, with the same writer and limits.
    pub fn reporting(&self, reporter: &str) -> Self {
        Self { reporter: reporter.into(), ..self.clone() }
    }

    /// A recorder of another instance that this process speaks for, with the same writer and limits.
    pub fn from_instance(&self, instance: &str) -> Self {
        Self { instance: instance.into(), ..self.clone() }
    }

    /// Records that something happened to an object. `reason` is one word for machines, `action` what was being done,
    /// `note` a sentence for people.
    ///
    /// Longer texts than the server takes are cut (128 bytes; the note 1024). An empty action is taken to be the
    /// reason; without a reason or an object's name there is no event.
    pub fn record(&self, about: &ObjectReference, kind: EventType, reason: &str, action: &str, note: &str) {
        self.send(about, None, kind, reason, action, note);
    }

    /// As [`record`](Self::record), with a second object that it has to do with, such as one that was created for the
    /// first.
    pub fn record_related(
        &self,
        about: &ObjectReference,
        related: &ObjectReference,
        kind: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.send(about, Some(related.clone()), kind, reason, action, note);
    }

    /// Resolves when everything recorded so far is written or given up. With a server that does not answer that takes
    /// minutes: set a limit.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.writer.send(Message::Flush(done)).await.is_ok() {
            // An error means that the writer is gone, and what it had with it.
            let _ = flushed.await;
        }
    }

    fn send(
        &self,
        about: &ObjectReference,
        related: Option<ObjectReference>,
        kind: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let occurrence = Occurrence {
            reporter: self.reporter.clone(),
            instance: self.instance.clone(),
            about: about.clone(),
            related,
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: note.to_owned(),
            at: windlass_clock::now(),
        };
        if self.writer.try_send(Message::Happened(Box::new(occurrence))).is_err() {
            self.metrics.count_dropped(Dropped::QueueFull);
            tracing::debug!(reason, "an event was dropped: too many wait to be written");
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("reporter", &self.reporter).field("instance", &self.instance).finish()
    }
}
