//! The webhook backend: a task that sends events in batches.

mod client;
mod throttle;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::Instant,
};

use self::{client::Client, throttle::Throttle};
use super::{
    Batching, Counters, Mode, Plugin, Truncation,
    event::ITEM,
    queue::{Item, Queue, Queued},
};
use crate::kubeconfig::KubeconfigError;

/// The number of times a batch is sent before it is abandoned, and the growth of the pauses between them.
const ATTEMPTS: u32 = 5;
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
/// The number of batches that are sent at the same time.
const CONCURRENT: usize = 32;

const LIST: &[u8] = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;

/// Options of the audit webhook.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// A kubeconfig whose current context names the webhook.
    pub config_file: PathBuf,
    /// The pause before the first retry.
    pub initial_backoff: Duration,
    /// Whether requests wait for their events.
    pub mode: Mode,
    /// The size of batches and of the queue.
    pub batching: Batching,
    /// Treatment of large events; `None` leaves them unchanged.
    pub truncation: Option<Truncation>,
}

impl WebhookOptions {
    /// Events in batches to the webhook of a kubeconfig.
    pub fn new(config_file: impl Into<PathBuf>) -> Self {
        Self {
            config_file: config_file.into(),
            initial_backoff: Duration::from_secs(10),
            mode: Mode::Batch,
            batching: Batching::default(),
            truncation: None,
        }
    }
}

/// Reads the configuration. Returns the queue, and the task that sends its events until it is dropped.
pub(super) fn start(
    options: &WebhookOptions,
    counters: Arc<Counters>,
) -> Result<(Queue, impl Future<Output = ()> + Send + use<>), KubeconfigError> {
    let client = Arc::new(Client::from_kubeconfig(&options.config_file)?);
    let batching = options.batching.clone();
    let (queue, receiver) = Queue::new(options.mode, batching.buffer_bytes, batching.buffer_events, counters.clone());
    let max_bytes = options.truncation.map_or(usize::MAX, |truncation| truncation.max_batch_size);
    // A request that waits for its event does not wait for others.
    let batching = if options.mode == Mode::Batch { batching } else { Batching { max_size: 1, ..batching } };
    let backend = Backend { client, counters, initial_backoff: options.initial_backoff };
    Ok((queue, run(receiver, backend, batching, max_bytes)))
}

#[derive(Clone)]
struct Backend {
    client: Arc<Client>,
    counters: Arc<Counters>,
    initial_backoff: Duration,
}

/// Sends events until the queue is dropped.
async fn run(mut receiver: mpsc::UnboundedReceiver<Item>, backend: Backend, batching: Batching, max_bytes: usize) {
    let mut throttle = batching.throttle.map(|(per_second, burst)| Throttle::new(per_second, burst));
    let mut sending = JoinSet::new();
    let mut left = None;
    loop {
        let Collected { batch, flush, open } = collect(&mut receiver, &batching, max_bytes, &mut left).await;
        while sending.try_join_next().is_some() {}
        if !batch.is_empty() {
            if let Some(throttle) = &mut throttle {
                throttle.wait().await;
            }
            while sending.len() >= CONCURRENT {
                sending.join_next().await;
            }
            let backend = backend.clone();
            sending.spawn(async move { backend.send(batch).await }.boxed());
        }
        if let Some(flushed) = flush {
            while sending.join_next().await.is_some() {}
            // The waiting side may be gone.
            let _ = flushed.send(());
        }
        if !open {
            break;
        }
    }
    while sending.join_next().await.is_some() {}
}

struct Collected {
    batch: Vec<Queued>,
    flush: Option<oneshot::Sender<()>>,
    /// Whether there can be more.
    open: bool,
}

/// Collects a batch: as many events as it may have, or all that arrive until it has waited for long enough. `left` is
/// an event that had no room in the previous batch.
async fn collect(
    receiver: &mut mpsc::UnboundedReceiver<Item>,
    batching: &Batching,
    max_bytes: usize,
    left: &mut Option<Queued>,
) -> Collected {
    let mut collected = Collected { batch: Vec::new(), flush: None, open: true };
    let mut bytes = 0;
    let mut deadline = None;
    while collected.batch.len() < batching.max_size.max(1) {
        let item = match (left.take(), deadline) {
            (Some(event), _) => Some(Item::Event(event)),
            (None, None) => receiver.recv().await,
            (None, Some(deadline)) => match tokio::time::timeout_at(deadline, receiver.recv()).await {
                Ok(item) => item,
                Err(_) => break,
            },
        };
        match item {
            Some(Item::Event(event)) => {
                if !collected.batch.is_empty() && bytes + event.text.len() > max_bytes {
                    *left = Some(event);
                    break;
                }
                bytes += event.text.len();
                collected.batch.push(event);
                deadline.get_or_insert_with(|| Instant::now() + batching.max_wait);
            }
            Some(Item::Flush(flushed)) => {
                collected.flush = Some(flushed);
                break;
            }
            None => {
                collected.open = false;
                break;
            }
        }
    }
    collected
}

impl Backend {
    /// Sends a batch, several times if necessary.
    async fn send(&self, batch: Vec<Queued>) {
        let mut body = LIST.to_vec();
        for (index, event) in batch.iter().enumerate() {
            body.extend_from_slice(if index == 0 { b"" } else { b"," });
            body.extend_from_slice(ITEM);
            body.extend_from_slice(&event.text);
        }
        body.extend_from_slice(b"]}");
        let body = bytes::Bytes::from(body);
        let mut pause = self.initial_backoff;
        let mut sent = self.client.post(body.clone()).await;
        for _ in 1..ATTEMPTS {
            if sent.is_ok() {
                break;
            }
            let random = (uuid::Uuid::new_v4().as_u128() % 1000) as f64 / 1000.0;
            tokio::time::sleep(pause.mul_f64(1.0 + JITTER * random)).await;
            pause = pause.mul_f64(FACTOR);
            sent = self.client.post(body.clone()).await;
        }
        if let Err(error) = &sent {
            self.counters.error(Plugin::Webhook, batch.len(), error);
        }
        batch.into_iter().for_each(|event| event.finish(sent.is_ok()));
    }
}
