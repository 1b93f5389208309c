//! A watcher like an informer: it lists, watches from there, and resumes after the last event it received.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use super::{
    history::{Call, ListKind, Operation, Outcome, Revision, WatchStream},
    lane::{Lane, Shared},
    object::{self, COLLECTION},
};
use crate::client::{Body, Client};

/// Time limit for the last events.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything that a watcher recorded.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) streams: Vec<WatchStream>,
    /// Its lists.
    pub(super) lists: Vec<Operation>,
    /// Number of watches that began after the last event of an earlier one.
    pub(super) resumed: u64,
    /// Number of watches that could not, because the server no longer had the events.
    pub(super) expired: u64,
}

pub(super) struct Watcher {
    shared: Arc<Shared>,
    number: u32,
    lane: Lane,
    /// The revision to start from; `None` to list first.
    start: Option<Revision>,
    /// The revision to reach; given at the end of the run.
    target: watch::Receiver<Option<Revision>>,
    watched: Watched,
}

/// Reasons why a stream ended.
enum End {
    Interrupted,
    Expired,
    Complete,
}

impl Watcher {
    pub(super) fn new(shared: Arc<Shared>, number: u32, target: watch::Receiver<Option<Revision>>) -> Self {
        let lane = Lane::new(shared.clone(), number, 0);
        Self { shared, number, lane, start: None, target, watched: Watched::default() }
    }

    /// Starts from a revision instead of a list.
    pub(super) fn after(self, revision: Revision) -> Self {
        Self { start: Some(revision), ..self }
    }

    /// Watches until the revision at the end of the run is reached, or certainly missed.
    pub(super) async fn run(mut self) -> anyhow::Result<Watched> {
        let mut position = self.start;
        let mut choice = self.number;
        while let Some(connection) = self.shared.connect(choice).await {
            // The next stream continues on another server, if there is one.
            choice = choice.wrapping_add(1);
            let after = match position {
                Some(after) => after,
                None => {
                    self.lane.perform(&connection, Call::List(ListKind::Consistent)).await?;
                    let last = self.lane.operations.last().map(|operation| &operation.outcome);
                    let Some(Outcome::Listed { revision, .. }) = last else { continue };
                    *revision
                }
            };
            if self.target.borrow().is_some_and(|target| after >= target) {
                break;
            }
            let resumes = position.is_some();
            let mut stream = WatchStream {
                watcher: self.number,
                after,
                begin: self.shared.now(),
                events: Vec::new(),
                complete_to: None,
            };
            let end = self.follow(&connection.client, &mut stream).await?;
            let reached = stream.events.iter().map(|event| event.version.revision).max().unwrap_or(after);
            match end {
                End::Interrupted => position = Some(reached),
                End::Expired => position = None,
                End::Complete => stream.complete_to = *self.target.borrow(),
            }
            self.watched.resumed += u64::from(resumes && !matches!(end, End::Expired));
            self.watched.expired += u64::from(matches!(end, End::Expired));
            self.watched.streams.push(stream);
            if matches!(end, End::Complete) {
                break;
            }
        }
        self.watched.lists = self.lane.operations;
        Ok(self.watched)
    }

    /// Reads a watch to its end.
    async fn follow(&mut self, client: &Client, stream: &mut WatchStream) -> anyhow::Result<End> {
        let path = format!("{COLLECTION}?watch=1&resourceVersion={}", stream.after);
        let Ok(response) = client.send(0, Method::GET, &path, Body::default()).await else {
            return Ok(End::Interrupted);
        };
        if response.status() == http::StatusCode::GONE {
            return Ok(End::Expired);
        }
        if !response.status().is_success() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            return Ok(End::Interrupted);
        }
        let mut body = response.into_body();
        let mut rest = BytesMut::new();
        loop {
            let target = *self.target.borrow_and_update();
            let newest = stream.events.last().map_or(stream.after, |event| event.version.revision);
            if target.is_some_and(|target| newest >= target) {
                return Ok(End::Complete);
            }
            let deadline = Instant::now() + LAST_EVENTS_TIMEOUT;
            let data = tokio::select! {
                data = next(&mut body) => data,
                _ = self.target.changed(), if target.is_none() => continue,
                () = tokio::time::sleep_until(deadline), if target.is_some() => return Ok(End::Complete),
            };
            let Some(data) = data else { return Ok(End::Interrupted) };
            rest.extend_from_slice(&data);
            while let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Value = serde_json::from_slice(&rest.split_to(length + 1))?;
                if line["type"] == "ERROR" {
                    return Ok(if line["object"]["code"] == 410 { End::Expired } else { End::Interrupted });
                }
                let event = object::event(&line, self.shared.now())?;
                stream.events.extend(event.filter(|event| self.shared.bugs.delivers(event)));
            }
        }
    }
}

/// Returns the next piece of a body; `None` at its end or when the connection breaks.
async fn next(body: &mut Incoming) -> Option<bytes::Bytes> {
    loop {
        let frame = body.frame().await?.ok()?;
        if let Ok(data) = frame.into_data() {
            return Some(data);
        }
    }
}
