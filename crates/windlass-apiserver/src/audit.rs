//! Auditing: a record of requests as events of `audit.k8s.io/v1`, in a log or sent to a webhook.
//!
//! The [`Policy`] decides, per request, how much is recorded ([`Level`]) and at which [`Stage`]s. A request that is
//! audited has a [`RequestAudit`], to which the handlers add what they know; its last event is emitted when it is
//! dropped, so that it is never missing. Events wait for their backend in a queue that is
//! bounded in bytes. Without a policy, the cost per request is one check of an `Option`.

mod counters;
mod event;
mod id;
mod log;
mod objects;
mod policy;
mod queue;
mod request;
mod webhook;

use std::{io, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::HeaderValue;
use tokio::task::AbortHandle;

pub(crate) use self::{
    counters::Counters,
    id::{ID, id},
    request::RequestAudit,
};
use self::{
    counters::Plugin,
    event::Event,
    policy::Recording,
    queue::{OnFull, Queue, Submitted},
};
pub use self::{
    event::{Level, Stage},
    log::{LogFormat, LogOptions},
    policy::{Policy, PolicyError},
    webhook::WebhookOptions,
};
pub use crate::kubeconfig::KubeconfigError;
use crate::{authorization::Action, user::User};

/// Time for which stopping waits for queued events.
const FLUSH: Duration = Duration::from_secs(2);

/// Options of auditing: the policy, and the destinations of events.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The policy.
    pub policy: Policy,
    /// The log.
    pub log: Option<LogOptions>,
    /// The webhook.
    pub webhook: Option<WebhookOptions>,
}

/// Whether requests wait for their events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Requests do not wait. Events for which the queue has no room are dropped and counted.
    #[default]
    Batch,
    /// Requests wait until their events are written; failures are counted.
    Blocking,
    /// As [`Mode::Blocking`], and a request fails if its first event cannot be written.
    BlockingStrict,
}

/// The bounds of a queue, and the size of batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Batching {
    /// The number of events in the queue.
    pub buffer_events: usize,
    /// The number of bytes in the queue.
    pub buffer_bytes: usize,
    /// The number of events of a batch.
    pub max_size: usize,
    /// Time for which a batch waits for more events.
    pub max_wait: Duration,
    /// The number of batches per second, and of a burst; `None` for no limit.
    pub throttle: Option<(f64, u32)>,
}

impl Default for Batching {
    fn default() -> Self {
        Self {
            buffer_events: 10_000,
            buffer_bytes: 64 << 20,
            max_size: 400,
            max_wait: Duration::from_secs(30),
            throttle: Some((10.0, 15)),
        }
    }
}

/// The size of events and batches above which they are truncated or split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// The size above which an event loses its objects, and above which it is then dropped.
    pub max_event_size: usize,
    /// The size of a batch.
    pub max_batch_size: usize,
}

impl Default for Truncation {
    fn default() -> Self {
        Self { max_event_size: 100 << 10, max_batch_size: 10 << 20 }
    }
}

/// Reasons why auditing cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The log could not be opened.
    #[error("failed to open the audit log {}", path.display())]
    Log {
        /// The file; `-` for standard output.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The configuration of the webhook is invalid.
    #[error(transparent)]
    Webhook(#[from] KubeconfigError),
}

/// The auditing of a server.
#[derive(Default)]
pub(crate) struct Audit(Option<Arc<Auditor>>);

impl Audit {
    /// Opens the backends. Returns the task that a webhook needs.
    pub(crate) fn start(options: Option<&AuditOptions>) -> Result<(Self, Option<AbortHandle>), AuditError> {
        let Some(options) = options.filter(|options| options.log.is_some() || options.webhook.is_some()) else {
            return Ok((Self(None), None));
        };
        let counters = Arc::new(Counters::default());
        let mut backends = Vec::new();
        if let Some(log) = &options.log {
            let queue = log::start(log, counters.clone())
                .map_err(|source| AuditError::Log { path: log.path.clone().unwrap_or_else(|| "-".into()), source })?;
            backends.push(Backend { queue, form: Form::Line(log.format), truncation: log.truncation });
        }
        let mut task = None;
        if let Some(webhook) = &options.webhook {
            let (queue, sending) = webhook::start(webhook, counters.clone())?;
            backends.push(Backend { queue, form: Form::Fields, truncation: webhook.truncation });
            task = Some(tokio::spawn(sending.boxed()).abort_handle());
        }
        let auditor = Auditor { policy: options.policy.clone(), backends, counters };
        Ok((Self(Some(Arc::new(auditor))), task))
    }

    /// Begins the audit of a request from an address; `None` if there is no policy.
    pub(crate) fn begin(&self, id: &HeaderValue, address: Option<IpAddr>) -> Option<Arc<RequestAudit>> {
        let auditor = self.0.as_ref()?;
        Some(Arc::new(RequestAudit::new(auditor.clone(), id.clone(), address)))
    }

    /// Waits until queued events are written, for a short time.
    pub(crate) async fn flush(&self) {
        let Some(auditor) = &self.0 else { return };
        let flush = async {
            for backend in &auditor.backends {
                backend.queue.flush().await;
            }
        };
        if tokio::time::timeout(FLUSH, flush).await.is_err() {
            tracing::warn!("stopped with audit events that were not written");
        }
    }

    /// Appends the metrics.
    pub(crate) fn render(&self, out: &mut String) {
        if let Some(auditor) = &self.0 {
            auditor.counters.render(out);
        }
    }
}

/// A policy and its backends.
pub(crate) struct Auditor {
    policy: Policy,
    backends: Vec<Backend>,
    counters: Arc<Counters>,
}

struct Backend {
    queue: Queue,
    form: Form,
    truncation: Option<Truncation>,
}

/// The form of queued events.
enum Form {
    Line(LogFormat),
    /// The fields of an item of a list.
    Fields,
}

impl Auditor {
    fn evaluate(&self, user: Option<&User>, action: &Action<'_>) -> Recording {
        let recording = self.policy.evaluate(user, action);
        self.counters.level(recording.level);
        recording
    }

    /// Hands an event to all backends.
    fn submit(&self, event: &Event, on_full: OnFull) -> Submitted {
        self.counters.event();
        let fields = event.encode();
        let mut submitted = Submitted::default();
        for backend in &self.backends {
            if let Some(text) = backend.text(event, &fields, &self.counters) {
                submitted.add(backend.queue.submit(text, on_full));
            }
        }
        submitted
    }
}

impl Backend {
    /// Returns the text of an event; `None` if it is too large.
    fn text(&self, event: &Event, fields: &Bytes, counters: &Counters) -> Option<Bytes> {
        let Some(Truncation { max_event_size, .. }) = self.truncation else { return Some(self.form.of(event, fields)) };
        let size = |fields: &Bytes| event::OBJECT.len() + fields.len() + 1;
        if size(fields) <= max_event_size {
            return Some(self.form.of(event, fields));
        }
        let truncated = event.truncated();
        let fields = truncated.encode();
        if event.level < Level::Request || size(&fields) > max_event_size {
            counters.error(Plugin::Truncate, 1, "event is too large even after truncating");
            return None;
        }
        Some(self.form.of(&truncated, &fields))
    }
}

impl Form {
    fn of(&self, event: &Event, fields: &Bytes) -> Bytes {
        match self {
            Self::Line(format) => log::line(*format, event, fields).into(),
            Self::Fields => fields.clone(),
        }
    }
}
