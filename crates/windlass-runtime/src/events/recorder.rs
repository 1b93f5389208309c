//! The handle for recording events.

use std::{fmt, sync::Arc};

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::{mpsc, oneshot};

use super::{EventMetrics, correlator::Dropped, event::Occurrence, writer};

/// Capacity of the queue. A reconciler that records a thousand events before the writer runs once has other problems.
const CAPACITY: usize = 1000;

/// Records events. A cheap handle; recording never waits and never fails.
///
/// ```no_run
/// # async fn example(client: kube::Client, foo: k8s_openapi::api::core::v1::ObjectReference) {
/// use windlass_runtime::events::{EventType, Recorder};
///
/// let recorder = Recorder::new(client, "foo-controller", "foo-controller-7d4b9");
/// recorder.record(&foo, EventType::Normal, "Synced", "Sync", "Foo synced successfully");
/// recorder.flush().await; // before the process exits
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder {
    reporter: Arc<str>,
    instance: Arc<str>,
    /// The instance on whose behalf this process acts; empty if it acts for itself.
    host: Arc<str>,
    style: EventStyle,
    metrics: EventMetrics,
    /// The client that writes its events, if it is not the writer's own.
    client: Option<EventClient>,
    writer: mpsc::Sender<Message>,
}

/// Provides the client that writes an event. Called for each write, so that a thousand series do not keep a thousand
/// clients.
#[derive(Clone)]
pub(super) struct EventClient(Arc<dyn Fn() -> Client + Send + Sync>);

/// The form of Events, and how repeated ones are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventStyle {
    /// Events of `events.k8s.io`, as kube-scheduler writes them: occurrences that differ only in their notes are one
    /// Event with a series.
    #[default]
    Series,
    /// Events of the core group with `count`, `firstTimestamp`, `lastTimestamp` and `source`, as written by kubelets
    /// and the controllers of kube-controller-manager: each note is an Event of its own, and every occurrence is
    /// written at once. From the tenth note in ten minutes on, the notes of one reason are combined in one Event. They
    /// have no action and no related object. The role needs `create` and `patch` on `events` of the core group.
    Counted,
}

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Everything is fine.
    Normal,
    /// Someone may need to act.
    Warning,
}

/// A message to the writer.
pub(super) enum Message {
    Happened(Box<Occurrence>),
    Flush(oneshot::Sender<()>),
}

impl EventClient {
    pub(super) fn get(&self) -> Client {
        (self.0)()
    }
}

impl fmt::Debug for EventClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventClient")
    }
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
    /// Creates a recorder for a controller (`reporter`, such as `foo-controller`) in this process (`instance`, the
    /// pod's name). A task on the current tokio runtime writes the events. It ends when the last clone is dropped and
    /// everything recorded is written.
    pub fn new(client: Client, reporter: &str, instance: &str) -> Self {
        Self::with_metrics(client, reporter, instance, EventMetrics::default())
    }

    /// Creates a recorder with metrics.
    pub fn with_metrics(client: Client, reporter: &str, instance: &str, metrics: EventMetrics) -> Self {
        let (writer, inbox) = mpsc::channel(CAPACITY);
        tokio::spawn(writer::run(client, inbox, metrics.clone()).boxed());
        Self {
            reporter: reporter.into(),
            instance: instance.into(),
            host: "".into(),
            style: EventStyle::default(),
            metrics,
            client: None,
            writer,
        }
    }

    /// Returns a recorder for another controller in this process, with the same writer and limits.
    pub fn reporting(&self, reporter: &str) -> Self {
        Self { reporter: reporter.into(), ..self.clone() }
    }

    /// Returns a recorder for another instance, on whose behalf this process acts, with the same writer and limits. It
    /// is the host of the source of [counted](EventStyle::Counted) events.
    pub fn from_instance(&self, instance: &str) -> Self {
        Self { instance: instance.into(), host: instance.into(), ..self.clone() }
    }

    /// Returns a recorder of events of another style, with the same writer and limits.
    pub fn with_style(&self, style: EventStyle) -> Self {
        Self { style, ..self.clone() }
    }

    /// Returns a recorder whose events are written with another client, for example with the identity of the controller
    /// that reports them, with the same limits. The function is called for each write.
    pub fn with_client(&self, client: impl Fn() -> Client + Send + Sync + 'static) -> Self {
        Self { client: Some(EventClient(Arc::new(client))), ..self.clone() }
    }

    /// Records an event about an object. `reason` is one word for machines, `action` the action that was taken, `note`
    /// a sentence for people.
    ///
    /// Strings are truncated to the limits of the API server (128 bytes; the note 1024). An empty action is replaced by
    /// the reason. Without a reason or an object name, nothing is recorded.
    pub fn record(&self, about: &ObjectReference, kind: EventType, reason: &str, action: &str, note: &str) {
        self.send(about, None, kind, reason, action, note);
    }

    /// Like [`record`](Self::record), with a second object that is involved, for example one that was created for the
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

    /// Resolves when everything recorded so far is written or dropped. If the API server does not respond, that takes
    /// minutes: use a timeout.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.writer.send(Message::Flush(done)).await.is_ok() {
            // An error means that the writer has ended.
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
            host: self.host.clone(),
            style: self.style,
            client: self.client.clone(),
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
            tracing::debug!(reason, "dropping an event, as too many are queued");
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("reporter", &self.reporter).field("instance", &self.instance).finish()
    }
}
