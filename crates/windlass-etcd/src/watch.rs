//! Watches, which continue after the connection to a member has been lost.

mod position;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use windlass_store::{Batch, Error, Revision, Watch};

use self::position::{Position, Step};
use crate::{
    base::Base,
    client::{ATTEMPT, Client, signed, unsigned},
    connection::{Answers, encoded},
    messages::{WATCH, WatchCommand, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse},
    status::{CallError, TIMED_OUT},
    translate,
};

/// Time that a watch waits for events before it asks for progress, while a reader waits for it.
const ASK_AFTER: Duration = Duration::from_millis(5);
/// Interval at which it asks again: etcd does not respond while it still has events to send.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// The first pause between attempts to resume, which doubles, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Attempts to start a watch, each with all servers.
const ATTEMPTS: usize = 5;

/// The keys that a watch covers: the first, and the end.
type Range = (Bytes, Bytes);

/// A stream of responses, and the channel for requests.
struct Stream {
    requests: mpsc::Sender<Bytes>,
    answers: Answers,
    base: Base,
}

impl Stream {
    /// Waits for the next response. Cancel-safe.
    async fn next(&mut self) -> Result<WatchResponse, CallError> {
        Ok(translate::answer(self.answers.next().await?, &self.base))
    }
}

enum State {
    Live(Stream),
    /// In the background of calls that are cancelled.
    Resuming(BoxFuture<'static, Result<Stream, Error>>),
    Ended,
}

/// A watch.
pub(crate) struct EtcdWatch {
    client: Arc<Client>,
    range: Range,
    position: Position,
    /// The revision that readers wait for.
    wanted: watch::Receiver<Revision>,
    /// Time of the next progress request.
    ask_at: Option<Instant>,
    state: State,
}

impl EtcdWatch {
    /// Starts a watch after a revision, which must neither be compacted nor in the future.
    pub(crate) async fn start(
        client: Arc<Client>,
        wanted: watch::Receiver<Revision>,
        range: Range,
        after: Revision,
    ) -> Result<Self, Error> {
        // There are no events before the first revision, and 0 means the newest.
        let after = after.max(Revision::INITIAL);
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            // A watch in the future would block, and one in the past would fail only later.
            client.check(after).await?;
            match open(&client, &range, after).await {
                Ok(stream) => {
                    let (position, state) = (Position::after(after), State::Live(stream));
                    return Ok(Self { client, range, position, wanted, ask_at: None, state });
                }
                Err(error) if attempt == ATTEMPTS || !error.is_transient() => return Err(error.into()),
                Err(_) => {}
            }
            sleep(pause).await;
            pause *= 2;
        }
        Err(Error::WatchInterrupted)
    }

    /// Decides when to ask for progress next: soon if a reader has begun to wait.
    fn schedule(&mut self) {
        let behind = *self.wanted.borrow_and_update() > self.position.delivered();
        self.ask_at = match self.ask_at {
            _ if !behind => None,
            None => Some(Instant::now() + ASK_AFTER),
            at => at,
        };
    }

    /// Handles the end of the stream.
    fn cut(&mut self, cause: &str) {
        if let State::Live(stream) = &self.state {
            let endpoint = stream.answers.endpoint();
            tracing::info!(%endpoint, cause, revision = %self.position.delivered(), "a watch on etcd was cut off; resuming it");
            self.client.channel.skip(endpoint);
        }
        self.position.resume();
        let (client, range, after) = (self.client.clone(), self.range.clone(), self.position.delivered());
        self.state = State::Resuming(Box::pin(resume(client, range, after)));
    }

    fn end(&mut self, error: Error) -> Result<Batch, Error> {
        self.state = State::Ended;
        Err(error)
    }
}

#[async_trait]
impl Watch for EtcdWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            self.schedule();
            let stream = match &mut self.state {
                State::Live(stream) => stream,
                State::Resuming(resumed) => {
                    match resumed.await {
                        Ok(stream) => self.state = State::Live(stream),
                        Err(error) => return self.end(error),
                    }
                    continue;
                }
                State::Ended => return Err(Error::WatchInterrupted),
            };
            let due = async {
                match self.ask_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let answer = tokio::select! {
                biased;
                answer = stream.next() => answer,
                () = due => {
                    // If requests pile up, etcd does not read them now, and one of them suffices.
                    let _ = stream.requests.try_send(command(WatchCommand::Progress(WatchProgressRequest {})));
                    self.ask_at = Some(Instant::now() + ASK_EVERY);
                    continue;
                }
                // The store, which sends, outlives no watch; a closed channel means that no caller waits.
                Ok(()) = self.wanted.changed() => continue,
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) if error.is_transient() => {
                    self.cut(&error.to_string());
                    continue;
                }
                Err(error) => return self.end(error.into()),
            };
            match self.position.accept(answer, &self.client.prefix) {
                Step::Nothing => {}
                Step::Batch(batch) => return Ok(batch),
                Step::Compacted(oldest) => {
                    let requested = self.position.delivered();
                    return self.end(Error::Compacted { requested, oldest });
                }
                Step::Ended(reason) => self.cut(&reason),
            }
        }
    }
}

/// Starts a watch again, however long that takes.
async fn resume(client: Arc<Client>, range: Range, after: Revision) -> Result<Stream, Error> {
    let mut pause = FIRST_PAUSE;
    loop {
        // Not only for the error: a watch right at the compacted revision may lack a deletion there.
        match client.check(after).await {
            Ok(()) => match open(&client, &range, after).await {
                Ok(stream) => {
                    tracing::info!(endpoint = %stream.answers.endpoint(), revision = %after, "resumed a watch on etcd");
                    return Ok(stream);
                }
                Err(error) if error.is_transient() => tracing::debug!(%error, "failed to resume a watch on etcd"),
                Err(error) => return Err(error.into()),
            },
            Err(Error::Unavailable { cause }) => tracing::debug!(cause, "failed to resume a watch on etcd"),
            Err(error) => return Err(error),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Starts a watch after a revision on a connection of its own.
async fn open(client: &Client, range: &Range, after: Revision) -> Result<Stream, CallError> {
    let opening = async {
        let connection = client.channel.dial().await.map_err(|error| CallError::NotSent(error.to_string()))?;
        let (requests, receiver) = mpsc::channel(4);
        let create = WatchCreateRequest {
            key: range.0.clone(),
            range_end: range.1.clone(),
            start_revision: signed(after).saturating_add(1),
            progress_notify: true,
            fragment: true,
        };
        // The receiver is in this function, and the channel is empty.
        let create = translate::request(&create, &client.base).into_owned();
        let _ = requests.try_send(command(WatchCommand::Create(create)));
        // etcd ends the watch if its member has no leader for a while.
        let answers = Arc::new(connection).stream(WATCH, receiver, &[("hasleader", "true")]).await?;
        let mut stream = Stream { requests, answers, base: client.base };
        let first = stream.next().await?;
        if !first.created || first.canceled {
            return Err(CallError::Lost(format!("etcd does not start a watch: {}", first.cancel_reason)));
        }
        Ok(stream)
    };
    timeout(ATTEMPT, opening).await.unwrap_or_else(|_| Err(CallError::Lost(TIMED_OUT.to_owned())))
}

/// Asks for the oldest revision that there is: etcd reports it only to a watch that is too old.
pub(crate) async fn oldest_revision(client: &Client) -> Option<Revision> {
    let asking = async {
        // The key never exists.
        let range = (client.prefix.probe(), Bytes::new());
        let mut stream = open(client, &range, Revision(0)).await.ok()?;
        loop {
            let answer = stream.next().await.ok()?;
            if answer.canceled {
                return Some(Revision(unsigned(answer.compact_revision))).filter(|revision| revision.0 > 0);
            }
        }
    };
    timeout(ASK_EVERY * 20, asking).await.ok().flatten()
}

fn command(command: WatchCommand) -> Bytes {
    encoded(&WatchRequest { command: Some(command) })
}
