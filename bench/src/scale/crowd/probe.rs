//! A client that reads one object all the time.

use std::time::{Duration, Instant};

use http::Method;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    client::{Body, Client},
    phase::Samples,
};

/// Interval between requests.
const EVERY: Duration = Duration::from_millis(2);

/// A running probe.
pub(super) struct Probe {
    stop: oneshot::Sender<()>,
    task: JoinHandle<anyhow::Result<Samples>>,
}

impl Probe {
    /// Starts reading an object that exists.
    pub(super) fn start(client: Client, path: String) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let (start, mut micros, mut bytes) = (Instant::now(), Vec::new(), 0);
            while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                let begin = Instant::now();
                bytes += client.measure(0, Method::GET, &path, Body::default()).await?;
                micros.push(u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX));
                tokio::time::sleep(EVERY).await;
            }
            micros.sort_unstable();
            Ok(Samples { elapsed: start.elapsed(), micros, bytes })
        });
        Self { stop, task }
    }

    /// Ends the probe and returns the latencies; fails if a request failed.
    pub(super) async fn end(self) -> anyhow::Result<Samples> {
        // Fails if the probe has failed, which the result tells.
        let _ = self.stop.send(());
        self.task.await?
    }
}
