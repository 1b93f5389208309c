//! Watches: the initial state, then the log of changes, until one side ends the watch. A watcher that the log has moved
//! past reads the store's history until it has caught up.

use std::{ops::ControlFlow, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_store::{Error as StoreError, Revision};

use crate::{
    call::{Answer, Call},
    options::{ListOptions, parse_resource_version},
    registry::Endpoint,
    represent::EventFormat,
    selection::Selection,
    server::Inner,
    status::{ApiError, Result},
    storage::{CacheEvent, Change, History, StoredObject, WatcherCount},
    write::convert,
};

/// The number of events read from the log at once: enough to catch up quickly, few enough to release the lock soon.
const BATCH: usize = 256;
/// The number of bytes after which a chunk of the initial state ends.
const INITIAL_BYTES: usize = 256 << 10;
/// The interval of bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The time after the start of a watch with initial events at which kube-apiserver sends it another bookmark.
const FIRST_BOOKMARK: Duration = Duration::from_millis(1500);
/// Time before the end of a watch at which its last bookmark is sent, so that the client continues near the end.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// The minimum duration of a watch without a timeout; it ends after between one and two times this.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
/// The maximum duration of a watch: longer than any process runs, but short enough to be added to any clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

struct Watcher {
    server: Arc<Inner>,
    endpoint: Arc<Endpoint>,
    selection: Selection,
    format: EventFormat,
    /// The revision up to which everything has been sent.
    cursor: Revision,
    /// The store's history, while the log has moved past the cursor.
    history: Option<History>,
    /// The rest of the initial state.
    initial: std::vec::IntoIter<Arc<StoredObject>>,
    /// Whether to announce the end of the initial state.
    announce_end: bool,
    /// Time at which the next bookmark is due.
    bookmark_at: Option<Instant>,
    /// The revision that the watch started at. Bookmarks are sent for newer ones.
    started_at: Revision,
    /// Whether the next bookmark is sent even if nothing has changed.
    confirms_start: bool,
    deadline: Instant,
    /// Whether a webhook converts the objects.
    converts: bool,
    finished: bool,
    /// The next event other than a change. Kept from one chunk to the next, because starting to wait for it costs more than
    /// sending a chunk.
    due: Option<BoxFuture<'static, Due>>,
    _count: WatcherCount,
}

/// An event that a watch responds to, other than a change.
enum Due {
    /// The watch ends.
    End,
    /// The endpoint is no longer served.
    Retired,
    /// It is time for a bookmark.
    Bookmark,
}

/// Starts a watch.
pub(crate) async fn watch(call: &Call<'_>) -> Result<Answer> {
    let options = ListOptions::parse(&call.query, true)?;
    let selection = Selection::of(call)?;
    let storage = &call.server.storage;
    let given = match options.resource_version.as_str() {
        "" => None,
        text => Some(parse_resource_version(text).map_err(|error| ApiError::unexpected(error.to_string()))?),
    };
    let from_state = match options.send_initial_events {
        Some(wanted) => wanted,
        None => matches!(given, None | Some(0)),
    };
    match given {
        None => {
            storage.fresh().await?;
        }
        Some(revision) if from_state => {
            let wait = Duration::from_secs(3);
            // A revision that is not reached in time is awaited in the stream.
            let _ = tokio::time::timeout(wait, storage.reached(Revision(revision))).await;
        }
        Some(_) => {}
    }
    let (initial, cursor) = if from_state {
        let applied = storage.applied();
        let snapshot = call.endpoint.cache.snapshot();
        let selected: Vec<_> = match call.endpoint.has_converter() {
            true => selection
                .select_served(call, &snapshot, None, None)
                .await?
                .into_iter()
                .map(|(_, object)| object)
                .collect(),
            false => selection.select(call.endpoint, &snapshot, None).map(|(_, object)| object.clone()).collect(),
        };
        (selected, applied.max(snapshot.revision))
    } else {
        (Vec::new(), given.filter(|revision| *revision > 0).map_or_else(|| storage.applied(), Revision))
    };
    let deadline = Instant::now() + timeout(options.timeout_seconds);
    let format = EventFormat::negotiated(call)?;
    let content_type = format.content_type();
    // A watch from any state sends the initial events even if the client did not ask for them.
    let announce_end = options.bookmarks && from_state;
    let watcher = Watcher {
        server: call.server.clone(),
        endpoint: call.endpoint.clone(),
        selection,
        format,
        cursor,
        history: None,
        initial: initial.into_iter(),
        announce_end,
        bookmark_at: next_bookmark(deadline, announce_end).filter(|_| options.bookmarks),
        started_at: cursor,
        confirms_start: announce_end,
        deadline,
        converts: call.endpoint.has_converter(),
        finished: false,
        due: None,
        _count: call.endpoint.cache.watchers.add(),
    };
    let chunks = futures_util::stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((chunk, watcher))
    });
    Ok(Answer::Watch { chunks: Box::pin(chunks), content_type })
}

/// Returns how long a watch lasts. One with a negative timeout ends after the initial state, as in kube-apiserver.
fn timeout(asked: Option<i64>) -> Duration {
    match asked {
        None | Some(0) => {
            let share = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
            DEFAULT_TIMEOUT + DEFAULT_TIMEOUT * share / 255
        }
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(MAX_TIMEOUT),
    }
}

/// Returns when the next bookmark of a watch is due; `None` if it ends before.
fn next_bookmark(deadline: Instant, is_first: bool) -> Option<Instant> {
    let now = Instant::now();
    let last = deadline.checked_sub(LAST_BOOKMARK)?;
    (last > now).then(|| last.min(now + if is_first { FIRST_BOOKMARK } else { BOOKMARK_EVERY }))
}

/// Returns `None` if the history of a watch is no longer available, and other errors.
fn unless_expired<T>(error: StoreError) -> Result<Option<T>> {
    match error {
        StoreError::Compacted { .. } | StoreError::Future { .. } | StoreError::WatchInterrupted => Ok(None),
        error => Err(error.into()),
    }
}

/// Resolves when the endpoint is no longer served.
async fn retired(endpoint: &Endpoint) {
    match endpoint.custom() {
        Some(custom) => custom.retired().await,
        None => std::future::pending().await,
    }
}

/// Waits for the next event other than a change.
async fn due(server: Arc<Inner>, endpoint: Arc<Endpoint>, deadline: Instant, bookmark_at: Option<Instant>) -> Due {
    let bookmark = async {
        match bookmark_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = tokio::time::sleep_until(deadline) => Due::End,
        () = server.stopping() => Due::End,
        () = retired(&endpoint) => Due::Retired,
        () = bookmark => Due::Bookmark,
    }
}

impl Watcher {
    /// Returns the next chunk of the stream; `None` at its end. A chunk may hold several events.
    async fn next(&mut self) -> Option<Bytes> {
        if self.finished {
            return None;
        }
        if let Some(chunk) = self.next_initial() {
            return Some(chunk);
        }
        if std::mem::take(&mut self.announce_end) {
            return Some(self.bookmark(self.cursor, true));
        }
        let endpoint = self.endpoint.clone();
        let mut ending = false;
        loop {
            if let ControlFlow::Break(chunk) = self.look().await {
                return chunk;
            }
            // Registered only now, because most chunks are followed by another.
            let mut changed = pin!(endpoint.cache.changed());
            changed.as_mut().enable();
            let applied = match self.look().await {
                ControlFlow::Break(chunk) => return chunk,
                ControlFlow::Continue(applied) => applied,
            };
            if ending {
                return None;
            }
            let due = self.due.get_or_insert_with(|| {
                due(self.server.clone(), endpoint.clone(), self.deadline, self.bookmark_at).boxed()
            });
            let event = tokio::select! {
                biased;
                event = due => event,
                () = changed => continue,
            };
            self.due = None;
            match event {
                Due::End => return None,
                // Events before the end are sent before the stream ends.
                Due::Retired => ending = true,
                Due::Bookmark => {
                    self.bookmark_at = next_bookmark(self.deadline, false);
                    let revision = applied.max(self.cursor);
                    if std::mem::take(&mut self.confirms_start) || revision > self.started_at {
                        return Some(self.bookmark(revision, false));
                    }
                }
            }
        }
    }

    /// Returns the next events, or the end of the stream; the revision up to which everything has been sent if there are
    /// none.
    async fn look(&mut self) -> ControlFlow<Option<Bytes>, Revision> {
        loop {
            // Read before the log: if the log then has no more events, everything up to this revision has been sent.
            let applied = self.server.storage.applied();
            let lines = match self.next_from_log().await {
                Ok(None) => {
                    let (server, endpoint, deadline) = (self.server.clone(), self.endpoint.clone(), self.deadline);
                    tokio::select! {
                        lines = self.next_from_history() => lines,
                        () = tokio::time::sleep_until(deadline) => return ControlFlow::Break(None),
                        () = server.stopping() => return ControlFlow::Break(None),
                        () = retired(&endpoint) => return ControlFlow::Break(None),
                    }
                }
                lines => {
                    self.history = None;
                    lines
                }
            };
            let (to, chunk) = match lines {
                Ok(Some(lines)) => lines,
                Ok(None) => {
                    self.finished = true;
                    return ControlFlow::Break(Some(self.expired(applied)));
                }
                Err(error) => {
                    self.finished = true;
                    return ControlFlow::Break(Some(self.format.event(&self.endpoint, "ERROR", error.to_status())));
                }
            };
            let advanced = to > self.cursor;
            self.cursor = to;
            if !chunk.is_empty() {
                return ControlFlow::Break(Some(chunk));
            }
            if !advanced {
                return ControlFlow::Continue(applied);
            }
        }
    }

    /// Returns a part of the initial state.
    fn next_initial(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        while out.len() < INITIAL_BYTES
            && let Some(object) = self.initial.next()
        {
            self.format.write(&self.endpoint, Change::Added, &object, &mut out);
        }
        (!out.is_empty()).then(|| out.into())
    }

    /// Returns the next events of the log as lines, with the revision of the last one; `None` if some are no longer
    /// kept.
    async fn next_from_log(&mut self) -> Result<Option<(Revision, Bytes)>> {
        let cache = &self.endpoint.cache;
        let as_stored = self.endpoint.served_as_stored_after() == Revision(0);
        if self.format.is_plain_json() && as_stored && self.selection.is_everything() && !self.converts {
            return Ok(cache.lines_after(self.cursor, &self.selection.prefix, BATCH));
        }
        let Some(events) = cache.events_after(self.cursor, BATCH) else { return Ok(None) };
        let to = events.last().map_or(self.cursor, |event| event.object.revision);
        Ok(Some((to, self.lines(&events).await?)))
    }

    /// Waits for the next events in the store's history; returns `None` if some were compacted.
    async fn next_from_history(&mut self) -> Result<Option<(Revision, Bytes)>> {
        let server = self.server.clone();
        let mut history = match self.history.take() {
            Some(history) => history,
            None => match server.storage.history(&self.endpoint.cache, self.cursor).await {
                Ok(history) => history,
                Err(error) => return unless_expired(error),
            },
        };
        let (to, events) = match server.storage.next_in(&mut history).await {
            Ok(next) => next,
            Err(error) => return unless_expired(error),
        };
        self.history = Some(history);
        Ok(Some((to, self.lines(&events).await?)))
    }

    /// Returns the lines of events, which a webhook may have to convert.
    async fn lines(&mut self, events: &[Arc<CacheEvent>]) -> Result<Bytes> {
        let mut out = Vec::new();
        match self.converts {
            true => self.write_converted(events, &mut out).await?,
            false => events.iter().for_each(|event| self.write(event, &mut out)),
        }
        Ok(out.into())
    }

    async fn write_converted(&mut self, events: &[Arc<CacheEvent>], out: &mut Vec<u8>) -> Result<()> {
        let now = events.iter().map(|event| event.object.clone()).collect();
        let before = events.iter().filter_map(|event| event.previous.clone()).collect();
        let now = convert::to_served_objects(&self.server, &self.endpoint, now).boxed().await?;
        let mut before = convert::to_served_objects(&self.server, &self.endpoint, before).boxed().await?.into_iter();
        for (event, object) in events.iter().zip(now) {
            let previous = event.previous.as_ref().and_then(|_| before.next());
            let event = CacheEvent { change: event.change, object, previous, frame: event.frame.clone() };
            self.write(&event, out);
        }
        Ok(())
    }

    fn write(&mut self, event: &CacheEvent, out: &mut Vec<u8>) {
        if !self.selection.in_scope(&event.object) {
            return;
        }
        let selected = |object: &StoredObject| self.selection.matches(&self.endpoint, object);
        let was = event.previous.as_ref().is_some_and(|previous| selected(previous));
        let is = event.change != Change::Deleted && selected(&event.object);
        let change = match (was, is) {
            (false, true) => Change::Added,
            (true, true) => Change::Modified,
            (true, false) => Change::Deleted,
            (false, false) => return,
        };
        let as_stored = self.endpoint.is_served_as_stored(&event.object) && !event.object.is_converted();
        if change == event.change && self.format.is_plain_json() && as_stored {
            out.extend_from_slice(&event.frame);
        } else if change == Change::Deleted {
            // An object that left the selection is sent in the last state in which it was selected.
            let previous = event.previous.as_ref().expect("a deletion must have a previous state");
            let last = previous.deleted_at(event.object.revision);
            self.format.write(&self.endpoint, change, &last, out);
        } else {
            self.format.write(&self.endpoint, change, &event.object, out);
        }
    }

    fn bookmark(&mut self, revision: Revision, end_of_initial: bool) -> Bytes {
        let resource = &*self.endpoint.resource;
        let mut object = json!({
            "kind": &*resource.kind, "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": revision.to_string()},
        });
        if end_of_initial {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.format.event(&self.endpoint, "BOOKMARK", self.endpoint.normalize(object))
    }

    fn expired(&mut self, applied: Revision) -> Bytes {
        let error = ApiError::expired(format!("too old resource version: {} ({applied})", self.cursor));
        let status: Value = error.to_status();
        self.format.event(&self.endpoint, "ERROR", status)
    }
}
