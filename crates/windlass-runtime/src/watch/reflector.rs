//! The loop around the [state machine](super::machine): sends its requests, reports the results, and waits.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use kube::{Client, client::Body};
use tokio::{
    sync::mpsc::Sender,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Change, ObjectStorer, Parse, UnreadableObject, WatchOptions,
    decode::{Decoder, Event, Lines, ListBody, Progress, Unreadable},
    failure::Failure,
    initial::Initial,
    machine::{Listed, Request, Settings, StateMachine},
    metrics::Counts,
    request,
};
use crate::{any_object::AnyObject, key::ObjectKey, object::revision, random};

/// Time without data after which a list has failed.
const LIST_SILENCE: Duration = Duration::from_secs(60);
/// Time without data after which a streaming list has stalled.
const STREAM_SILENCE: Duration = Duration::from_secs(30);
/// Time without data after which a watch is dead, for servers that send bookmarks, which come about every minute.
const WATCH_SILENCE: Duration = Duration::from_secs(180);
/// Range of timeouts after which the server should end a watch; the client ends it a little later.
const WATCH_TIMEOUT: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(600));
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// Bytes to parse before other tasks get their turn: about a millisecond.
const SLICE: usize = 256 << 10;
/// Maximum length of an error response.
const LONGEST_STATUS: usize = 64 << 10;

/// End of a step.
enum End {
    /// The receiver was dropped.
    Closed,
    Failed(Failure),
    /// The watch ended, or its connection broke.
    Ended {
        lasted: Duration,
        moved: bool,
        cause: Option<Failure>,
    },
}

impl<E: Into<Failure>> From<E> for End {
    fn from(failure: E) -> Self {
        Self::Failed(failure.into())
    }
}

/// An open watch.
struct Open {
    body: Body,
    began: Instant,
    /// Time after which it is cut off.
    limit: Duration,
    events: u64,
    /// Whether it delivered anything.
    moved: bool,
}

pub(super) struct Reflector<P: ObjectStorer> {
    client: Client,
    options: WatchOptions,
    keeper: P,
    changes: Sender<Change<dyn AnyObject, P::Stored>>,
    decoder: Decoder<dyn AnyObject>,
    machine: StateMachine,
    counts: Counts,
    /// The readable objects of the pages so far, and the unreadable ones.
    pages: Vec<P::Stored>,
    unreadable: Vec<UnreadableObject>,
    pages_began: Instant,
    /// Whether the server sends bookmarks.
    bookmarks: bool,
}

impl<P: ObjectStorer> Reflector<P> {
    pub(super) fn new(
        client: Client,
        options: WatchOptions,
        parse: Parse<dyn AnyObject>,
        keeper: P,
        changes: Sender<Change<dyn AnyObject, P::Stored>>,
    ) -> Self {
        let machine = StateMachine::new(Settings {
            page_size: options.page_size,
            streaming_list: options.streaming_list,
            short_watch: options.short_watch,
            random: random::fraction,
        });
        let decoder = Decoder::new(parse, &options.resource, options.keep_managed_fields);
        let counts = Counts::new(options.metrics.clone(), &options.resource);
        Self {
            client,
            options,
            keeper,
            changes,
            decoder,
            machine,
            counts,
            pages: Vec::new(),
            unreadable: Vec::new(),
            pages_began: Instant::now(),
            bookmarks: false,
        }
    }

    /// Runs until the receiver is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let request = self.machine.request();
            let outcome = match &request {
                Request::List { token, .. } => self.list(&request, token.is_some()).await,
                Request::StreamedList { .. } => {
                    // Pages of an abandoned list.
                    (self.pages, self.unreadable) = (Vec::new(), Vec::new());
                    self.watch(&request, Some(Initial::default())).await
                }
                Request::Watch { .. } => self.watch(&request, None).await,
            };
            let wait = match outcome {
                Ok(()) => Duration::ZERO,
                Err(End::Closed) => return,
                Err(End::Failed(failure)) => {
                    self.counts.failed(failure.word());
                    let verdict = self.machine.failed(&failure, Instant::now());
                    self.report(&failure, verdict.wait, verdict.became_absent);
                    if verdict.became_absent && self.changes.send(Change::Absent).await.is_err() {
                        return;
                    }
                    verdict.wait
                }
                Err(End::Ended { lasted, moved, cause }) => {
                    let now = Instant::now();
                    let wait = self.machine.ended(lasted, moved, now).err();
                    match wait {
                        Some(wait) => {
                            self.counts.short_watch();
                            tracing::warn!(?lasted, ?wait, ?cause, "watch ended too soon");
                        }
                        None => tracing::debug!(?lasted, ?cause, "watch ended"),
                    }
                    wait.unwrap_or_default()
                }
            };
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Reads one page, or a whole list.
    async fn list(&mut self, request: &Request, continues: bool) -> Result<(), End> {
        if !continues {
            self.pages.clear();
            self.unreadable.clear();
            self.pages_began = Instant::now();
        }
        // A page counts only when it was received completely.
        let before = (self.pages.len(), self.unreadable.len());
        let meta = match self.page(request).await {
            Ok(meta) => meta,
            Err(failure) => {
                self.pages.truncate(before.0);
                self.unreadable.truncate(before.1);
                return Err(End::Failed(failure));
            }
        };
        match self.machine.listed(meta) {
            Listed::More => Ok(()),
            Listed::Complete(revision) => {
                let objects = (std::mem::take(&mut self.pages), std::mem::take(&mut self.unreadable));
                self.replace(objects, &revision, self.pages_began).await
            }
        }
    }

    async fn page(&mut self, request: &Request) -> Result<super::decode::ListMeta, Failure> {
        let request = request::build(&self.options, request, Duration::ZERO).map_err(connection)?;
        let silent = |_| Failure::Silent(LIST_SILENCE);
        let mut body = timeout(LIST_SILENCE, self.send(request)).await.map_err(silent)??;
        let mut list = ListBody::new(&self.decoder);
        loop {
            match timeout(LIST_SILENCE, next(&mut body)).await.map_err(silent)?? {
                Some(piece) => list.feed(piece),
                None => list.end(),
            }
            let (pages, keeper, unreadable) = (&mut self.pages, &self.keeper, &mut self.unreadable);
            let mut listed = |object, text: &[u8]| pages.push(keeper.keep(object, pages.len(), Some(text)));
            let mut skipped = |object: Unreadable| {
                warn(&self.counts, &self.options, &object);
                unreadable.extend(object.named());
            };
            while list.parse(SLICE, &mut listed, &mut skipped)? == Progress::More {
                tokio::task::yield_now().await;
            }
            if list.is_whole() {
                return Ok(list.finish()?);
            }
        }
    }

    /// Watches changes, after the state if it is a streaming list. Ends only with an [`End`].
    async fn watch(&mut self, request: &Request, initial: Option<Initial<P::Stored>>) -> Result<(), End> {
        let (least, most) = WATCH_TIMEOUT;
        let lasts = least + (most - least).mul_f64(random::fraction());
        let request = request::build(&self.options, request, lasts).map_err(connection)?;
        let limit = lasts + WATCH_GRACE;
        let began = Instant::now();
        self.counts.watch_began();
        // Some proxies hold back even the head of the response until there is an event, so it gets as much time.
        let sending = timeout_at(began + limit, self.send(request)).await;
        let body = sending.map_err(|_| Failure::Silent(limit))??;
        let mut open = Open { body, began, limit, events: 0, moved: false };
        let end = self.follow(&mut open, initial).await;
        let lasted = began.elapsed();
        self.counts.watch_ended(lasted, open.events);
        end.and_then(|cause| Err(End::Ended { lasted, moved: open.moved, cause }))
    }

    /// Handles the events of a watch until its end; returns the failure if it broke.
    async fn follow(
        &mut self,
        open: &mut Open,
        mut initial: Option<Initial<P::Stored>>,
    ) -> Result<Option<Failure>, End> {
        let mut lines = Lines::default();
        let mut silence = if initial.is_some() { STREAM_SILENCE } else { self.watch_silence(open) };
        loop {
            match timeout_at((open.began + open.limit).min(Instant::now() + silence), next(&mut open.body)).await {
                Ok(Ok(Some(piece))) => lines.feed(piece),
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(broken)) => return Ok(Some(broken)),
                Err(_) if initial.is_some() => return Err(Failure::Endless { sure: false }.into()),
                Err(_) => return Ok(Some(Failure::Silent(silence))),
            }
            let mut parsed = 0;
            while let Some(line) = lines.next()? {
                open.events += 1;
                parsed += line.len();
                if parsed > SLICE {
                    parsed = 0;
                    tokio::task::yield_now().await;
                }
                let (event, text) = self.decoder.event(&line)?;
                let Some(state) = &mut initial else {
                    if matches!(event, Event::Bookmark { .. }) {
                        self.bookmarks = true;
                        silence = WATCH_SILENCE;
                    }
                    let is_state = matches!(event, Event::Added(_) | Event::Modified(_));
                    open.moved |= self.apply(event).await?;
                    // Not earlier: the change should not wait. Without the object, which is not copied if it is not shared.
                    if is_state {
                        self.keeper.received(text);
                    }
                    continue;
                };
                if let Some(revision) = self.collect(state, event, text)? {
                    let objects = initial.take().map(|state| state.finish(P::key)).unwrap_or_default();
                    self.machine.streamed(&revision);
                    self.replace(objects, &revision, open.began).await?;
                    (silence, open.moved) = (self.watch_silence(open), true);
                }
            }
        }
    }

    /// Returns how long a watch may be silent: not longer than bookmarks take, if the server is known to send them.
    fn watch_silence(&self, open: &Open) -> Duration {
        if self.bookmarks { WATCH_SILENCE } else { open.limit }
    }

    /// Handles an event of a streaming list. Returns its revision if it is complete.
    fn collect(
        &self,
        state: &mut Initial<P::Stored>,
        event: Event<dyn AnyObject>,
        text: &[u8],
    ) -> Result<Option<String>, End> {
        match event {
            Event::Added(object) => {
                state.added(self.keeper.keep(object, state.len(), Some(text)), P::key);
            }
            Event::Modified(object) => {
                let key = ObjectKey::of_meta(object.metadata());
                state.modified(key, self.keeper.keep(object, state.len(), Some(text)));
            }
            Event::Deleted(object) => state.deleted(ObjectKey::of_meta(object.metadata())),
            Event::Bookmark { revision, initial_events_end: true } => return Ok(Some(revision)),
            // Ordinary bookmarks only come after the state: the server treated this as an ordinary watch.
            Event::Bookmark { .. } => return Err(Failure::Endless { sure: true }.into()),
            Event::Unknown => {}
            Event::Unreadable { object, deleted } => {
                warn(&self.counts, &self.options, &object);
                match (deleted, object.named()) {
                    (true, named) => state.deleted(named.ok_or(Failure::UnreadableDeleted)?.key),
                    (false, Some(named)) => state.unreadable(named),
                    (false, None) => {}
                }
            }
            Event::Error(status) => return Err(Failure::of_status(status).into()),
        }
        Ok(None)
    }

    /// Handles a change. Returns whether it is new.
    async fn apply(&mut self, event: Event<dyn AnyObject>) -> Result<bool, End> {
        let change = match event {
            Event::Added(object) | Event::Modified(object) => Change::Apply(object),
            Event::Deleted(object) => Change::Delete(object),
            Event::Bookmark { revision, .. } => {
                if !self.machine.seen(&revision) {
                    return Ok(false);
                }
                let revision = number(&revision);
                self.counts.revision(revision);
                self.deliver(Change::Bookmark(revision)).await?;
                return Ok(true);
            }
            Event::Unreadable { object, deleted } => {
                warn(&self.counts, &self.options, &object);
                match (deleted, object.named()) {
                    (true, named) => {
                        let UnreadableObject { key, revision, .. } = named.ok_or(Failure::UnreadableDeleted)?;
                        self.deliver(Change::Gone { key, revision }).await?;
                    }
                    (false, Some(named)) => self.deliver(Change::Unreadable(named)).await?,
                    (false, None) => {}
                }
                return Ok(self.machine.seen(&object.revision));
            }
            Event::Error(status) => return Err(Failure::of_status(status).into()),
            Event::Unknown => return Ok(false),
        };
        if let Change::Apply(object) | Change::Delete(object) = &change {
            self.machine.seen(object.metadata().resource_version.as_deref().unwrap_or_default());
            self.counts.revision(revision(object.metadata()));
        }
        self.deliver(change).await?;
        Ok(true)
    }

    async fn replace(
        &self,
        (objects, unreadable): (Vec<P::Stored>, Vec<UnreadableObject>),
        revision: &str,
        began: Instant,
    ) -> Result<(), End> {
        let revision = number(revision);
        self.counts.listed(began.elapsed(), objects.len());
        self.counts.revision(revision);
        tracing::debug!(objects = objects.len(), revision, took = ?began.elapsed(), "state fetched");
        self.deliver(Change::Replace { objects, unreadable, revision }).await
    }

    async fn deliver(&self, change: Change<dyn AnyObject, P::Stored>) -> Result<(), End> {
        self.changes.send(change).await.map_err(|_| End::Closed)
    }

    /// Sends a request; returns the body of a successful response.
    async fn send(&self, request: http::Request<Body>) -> Result<Body, Failure> {
        let response = self.client.send(request).await.map_err(connection)?;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let body = timeout(LIST_SILENCE, Limited::new(body, LONGEST_STATUS).collect()).await;
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        Err(Failure::of_response(head.status, &head.headers, &body))
    }

    fn report(&self, failure: &Failure, wait: Duration, became_absent: bool) {
        let error = crate::Error::new(failure.to_string());
        if failure.is_rejection() && !wait.is_zero() {
            self.keeper.rejected(&failure.to_string());
        }
        match failure {
            Failure::NotServed if became_absent => {
                tracing::info!("resource is not served; waiting for its CRD");
            }
            Failure::Expired | Failure::TooLarge | Failure::NotServed | Failure::Endless { .. } => {
                tracing::debug!(%error, ?wait, "fetching the state again");
            }
            Failure::Rejected { code: 401 | 403, .. } => tracing::warn!(
                %error,
                ?wait,
                hint = "the account needs the verbs list and watch on this resource, in a ClusterRole, or in a Role if \
                        only a namespace is watched",
                "missing permission to list or watch"
            ),
            Failure::Connection(source) => tracing::warn!(%error, cause = %source, ?wait, "list or watch failed"),
            _ => tracing::warn!(%error, ?wait, "list or watch failed"),
        }
    }
}

/// Returns the next bytes of a body; `None` at its end.
async fn next(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(connection)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn warn(counts: &Counts, options: &WatchOptions, object: &Unreadable) {
    counts.unreadable();
    let Unreadable { namespace, name, place, .. } = object;
    let kind = &options.resource.kind;
    tracing::warn!(%kind, %namespace, %name, problem = %place, "an object failed to deserialize");
}

fn connection(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::Connection(error.into())
}

fn number(revision: &str) -> u64 {
    revision.parse().unwrap_or(0)
}
