//! Calls with retries, and what is known about the cluster's revisions.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use windlass_store::{Error, Revision};

use crate::{
    base::Base,
    channel::Channel,
    keys::Prefix,
    messages::{Answer, RANGE, RangeRequest, RangeResponse, ResponseHeader},
    status::CallError,
    translate::{self, Request},
};

/// The time limit of one attempt: etcd itself gives up after seven seconds.
pub(crate) const ATTEMPT: Duration = Duration::from_secs(10);
/// Time for which a read is retried, and a write whose request could not be sent.
const READ_FOR: Duration = Duration::from_secs(30);
const SEND_FOR: Duration = Duration::from_secs(10);
/// The first pause between attempts, which doubles, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A client of the cluster. All revisions are those of the store.
pub(crate) struct Client {
    pub(crate) channel: Channel,
    pub(crate) prefix: Prefix,
    pub(crate) base: Base,
    /// The newest revision in any response.
    newest: AtomicU64,
    /// Whether the base has been found to be another one.
    rebased: watch::Sender<bool>,
}

impl Client {
    /// Returns a client whose revisions are those of etcd.
    pub(crate) fn new(channel: Channel, prefix: Prefix) -> Self {
        let (base, newest) = (Base::default(), AtomicU64::new(0));
        Self { channel, prefix, base, newest, rebased: watch::Sender::new(false) }
    }

    /// Returns the client for another base.
    pub(crate) fn with_base(self, base: Base) -> Self {
        Self { base, ..Self::new(self.channel, self.prefix) }
    }

    /// Calls a read-only method, with retries while they may help.
    pub(crate) async fn read<A: Answer>(&self, method: &'static str, request: &impl Request) -> Result<A, CallError> {
        let deadline = Instant::now() + READ_FOR;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.try_read(method, request, ATTEMPT).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.is_transient() || Instant::now() + pause >= deadline {
                return Err(error);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Calls a method that changes nothing, once.
    pub(crate) async fn try_read<A: Answer>(
        &self,
        method: &'static str,
        request: &impl Request,
        within: Duration,
    ) -> Result<A, CallError> {
        let before = self.newest.load(Ordering::Acquire);
        let request = translate::request(request, &self.base);
        let answer: A = translate::answer(self.channel.call(method, &*request, within).await?, &self.base);
        let Some(header) = answer.header() else {
            return Err(CallError::Lost("etcd's answer has no header".to_owned()));
        };
        self.note(header, before)?;
        Ok(answer)
    }

    /// Calls a method that may change something; retries only if the request could not be sent.
    pub(crate) async fn write<A: Answer>(&self, method: &'static str, request: &impl Request) -> Result<A, CallError> {
        let request = translate::request(request, &self.base);
        let deadline = Instant::now() + SEND_FOR;
        let mut pause = FIRST_PAUSE;
        loop {
            let answer: Result<A, _> = self.channel.call(method, &*request, ATTEMPT).await;
            match answer {
                Err(CallError::NotSent(_)) if Instant::now() + pause < deadline => {}
                Ok(answer) => {
                    let answer = translate::answer(answer, &self.base);
                    self.newest.fetch_max(revision(answer.header()).0, Ordering::AcqRel);
                    return Ok(answer);
                }
                Err(error) => return Err(error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns the newest revision in any response so far.
    pub(crate) fn newest(&self) -> Revision {
        Revision(self.newest.load(Ordering::Acquire))
    }

    /// Records the revision of a response, which is an error if it is older than one before the call.
    fn note(&self, header: &ResponseHeader, before: u64) -> Result<(), CallError> {
        let revision = revision(Some(header)).0;
        if revision < before {
            return Err(CallError::Lost(format!(
                "etcd is at revision {revision}, after it has been at {before}: either a member answers with old data, or the \
                 cluster was restored from a backup; then start this program again"
            )));
        }
        self.newest.fetch_max(revision, Ordering::AcqRel);
        Ok(())
    }

    /// Reads the newest entry of a key, or that at a revision.
    pub(crate) async fn range(&self, key: Bytes, at: i64) -> Result<RangeResponse, CallError> {
        self.read(RANGE, &RangeRequest { key, revision: at, limit: 1, ..RangeRequest::default() }).await
    }

    /// Returns the newest revision.
    pub(crate) async fn revision(&self) -> Result<Revision, CallError> {
        let answer = self.range(self.prefix.probe(), 0).await?;
        self.check_base(&answer)?;
        Ok(revision(answer.header.as_ref()))
    }

    /// Checks that the base is still the same, with the response to a read of its key.
    pub(crate) fn check_base(&self, answer: &RangeResponse) -> Result<(), CallError> {
        if self.base.is_current(&answer.kvs) {
            return Ok(());
        }
        self.rebased.send_replace(true);
        Err(CallError::NotSent(self.rebased_cause()))
    }

    /// Resolves once the base is found to be another one, to the problem.
    pub(crate) async fn rebased(&self) -> String {
        let mut rebased = self.rebased.subscribe();
        // The sender is in self, so this cannot fail.
        let _ = rebased.wait_for(|rebased| *rebased).await;
        self.rebased_cause()
    }

    fn rebased_cause(&self) -> String {
        format!("the keys under {} in etcd were replaced by a migration, or deleted", self.prefix.as_str())
    }

    /// Checks that the state of a revision can be read: that it is neither compacted nor in the future.
    pub(crate) async fn check(&self, at: Revision) -> Result<(), Error> {
        self.base.check(at)?;
        match self.range(self.prefix.probe(), signed(at)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.explain(error, at).await),
        }
    }

    /// Returns the error of a read at a revision.
    pub(crate) async fn explain(&self, error: CallError, at: Revision) -> Error {
        let is = |check: fn(&crate::status::Status) -> bool| error.status().is_some_and(check);
        if is(|status| status.is_future()) {
            return match self.revision().await {
                Ok(current) => Error::Future { requested: at, current },
                Err(error) => error.into(),
            };
        }
        if is(|status| status.is_compacted()) {
            let oldest = crate::watch::oldest_revision(self).await.unwrap_or(Revision(at.0.saturating_add(1)));
            return Error::Compacted { requested: at, oldest: oldest.max(self.base.first()) };
        }
        error.into()
    }
}

/// Returns the revision in a header.
pub(crate) fn revision(header: Option<&ResponseHeader>) -> Revision {
    Revision(header.map_or(0, |header| unsigned(header.revision)))
}

/// Returns a revision as etcd encodes it.
pub(crate) fn signed(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// Returns a number that etcd encodes with a sign, and that is never negative.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
