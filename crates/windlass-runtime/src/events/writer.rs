//! The task that writes events.

use std::{future::Future, pin::Pin, time::Duration};

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior},
};

use super::{
    EventMetrics,
    correlator::{Correlator, Next, Outcome, Write},
    recorder::Message,
};
use crate::random;

/// Interval at which series are checked.
const TICK: Duration = Duration::from_secs(10);
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the last writes after all recorders are dropped.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

type Writing = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Writes until all recorders are dropped and everything recorded is written, or was attempted once.
pub(super) async fn run(client: Client, mut inbox: mpsc::Receiver<Message>, metrics: EventMetrics) {
    let mut correlator = Correlator::new(Instant::now());
    let mut flushes: Vec<(u64, oneshot::Sender<()>)> = Vec::new();
    let mut writing: Option<Writing> = None;
    let mut closed: Option<Instant> = None;
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut wake = closed;
        if writing.is_none() {
            match correlator.next_write(Instant::now()) {
                Next::Write(write) => {
                    let client = correlator.client().map_or_else(|| client.clone(), |own| own.get());
                    writing = Some(Box::pin(perform(client, write)));
                }
                Next::Wait(until) => wake = Some(closed.map_or(until, |end| end.min(until))),
                Next::Idle if closed.is_some() => return,
                Next::Idle => {}
            }
        }
        for (_, done) in flushes.extract_if(.., |(number, _)| correlator.is_settled(*number)) {
            // The caller may be gone.
            let _ = done.send(());
        }
        tokio::select! {
            message = inbox.recv(), if closed.is_none() => match message {
                Some(Message::Happened(occurrence)) => {
                    if let Err(dropped) = correlator.observe(&occurrence, Instant::now()) {
                        metrics.count_dropped(dropped);
                        tracing::debug!(reason = %occurrence.reason, ?dropped, "dropping an event");
                    }
                }
                Some(Message::Flush(done)) => flushes.push((correlator.hurry(), done)),
                None => {
                    correlator.close();
                    closed = Some(Instant::now() + LAST_PATIENCE);
                }
            },
            outcome = finished(&mut writing) => {
                writing = None;
                if outcome == Outcome::Written {
                    metrics.count_written();
                }
                if let Err(dropped) = correlator.written(outcome, Instant::now(), random::fraction()) {
                    metrics.count_dropped(dropped);
                }
            }
            () = wait(wake) => {
                if closed.is_some_and(|end| Instant::now() >= end) {
                    tracing::debug!("failed to write the last events in time");
                    return;
                }
            }
            _ = ticks.tick() => correlator.tick(Instant::now()),
        }
    }
}

async fn finished(writing: &mut Option<Writing>) -> Outcome {
    match writing {
        Some(writing) => writing.await,
        None => std::future::pending().await,
    }
}

async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn perform(client: Client, write: Write) -> Outcome {
    let creates = matches!(write, Write::Create(_) | Write::Counted { creates: true, .. });
    let asked = async {
        match write {
            Write::Create(event) => {
                let events = Api::namespaced(client, event.metadata.namespace.as_deref().unwrap_or("default"));
                events.create(&PostParams::default(), &*event).await.map(drop)
            }
            Write::Count { namespace, name, series } => {
                let events: Api<Event> = Api::namespaced(client, &namespace);
                let patch = json!({ "series": series });
                events.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
            Write::Counted { namespace, name, creates, body } => {
                let requests = kube::core::Request::new(format!("/api/v1/namespaces/{namespace}/events"));
                let request = match creates {
                    true => requests.create(&PostParams::default(), body.to_string().into_bytes()),
                    false => requests.patch(&name, &PatchParams::default(), &Patch::Merge(body)),
                };
                client.request_text(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
            }
        }
    };
    let error = match tokio::time::timeout(REQUEST_TIMEOUT, asked).await {
        Ok(Ok(())) => return Outcome::Written,
        Ok(Err(error)) => error,
        Err(_) => {
            tracing::debug!("writing an event timed out");
            return Outcome::Failed;
        }
    };
    tracing::debug!(%error, "failed to write an event");
    match error {
        kube::Error::Api(status) => match status.code {
            404 if !creates => Outcome::Missing,
            409 if creates && status.is_already_exists() => Outcome::Exists,
            // The server asked to come back later, or the request did not arrive in time.
            408 | 425 | 429 => Outcome::Failed,
            409 if !creates => Outcome::Failed,
            400..=499 => Outcome::Rejected,
            _ => Outcome::Failed,
        },
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => Outcome::Rejected,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests;
