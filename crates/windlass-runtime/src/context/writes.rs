//! Writes that are on their way.
//!
//! A write is seen through even if its caller goes away (a reconcile that took too long, the siblings of one that
//! failed), and one without an answer is looked up: what the server has done is in the caches when the object's turn
//! comes again, which waits for that. Nothing is seen through when this process must not write any more, nor when the
//! controller has ended.

use std::{future::Future, sync::Arc, time::Duration};

use hashbrown::HashMap;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Context, ContextError, error::Target};
use crate::{client::SendCondition, key::ObjectKey, lease::NotLeading};

/// The writes of a controller that are on their way. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightWrites {
    counts: Arc<watch::Sender<Counts>>,
    ended: CancellationToken,
}

/// How many, by what was being reconciled.
type Counts = HashMap<Option<ObjectKey>, usize>;

/// One of them, however it ends.
struct InFlightWrite {
    counts: Arc<watch::Sender<Counts>>,
    primary: Option<ObjectKey>,
}

impl InFlightWrite {
    fn new(context: &Context) -> Self {
        let (counts, primary) = (context.writes.counts.clone(), context.primary.clone());
        counts.send_modify(|counts| *counts.entry(primary.clone()).or_default() += 1);
        Self { counts, primary }
    }
}

impl Drop for InFlightWrite {
    fn drop(&mut self) {
        self.counts.send_modify(|counts| match counts.get_mut(&self.primary) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.primary)),
        });
    }
}

impl InFlightWrites {
    /// Resolves when what was written for a key is in the caches.
    pub(crate) async fn settled(&self, key: &ObjectKey) {
        // Mostly there are none at all.
        if self.counts.borrow().is_empty() {
            return;
        }
        let key = Some(key.clone());
        let _ = self.counts.subscribe().wait_for(|counts| !counts.contains_key(&key)).await;
    }

    /// Lets them finish, but not for longer than `patience`. None is sent after that.
    pub(crate) async fn end(&self, patience: Duration) {
        let mut counts = self.counts.subscribe();
        if tokio::time::timeout(patience, counts.wait_for(Counts::is_empty)).await.is_err() {
            let writes: usize = self.counts.borrow().values().sum();
            tracing::warn!(writes, "writes without an answer are given up");
        }
        self.ended.cancel();
    }
}

impl Context {
    /// Whether a write may be sent now.
    fn may_write(&self, target: &Target) -> Result<(), ContextError> {
        self.handles.leadership.check().map_err(|error| target.clone().not_leading(error))?;
        match &self.primary {
            Some(primary) if !self.handles.shard.owns(primary) => Err(target.clone().key_lost(primary)),
            _ => Ok(()),
        }
    }

    /// Sends a write if it may be sent. Nothing is awaited between the check and the sending; a request that has to
    /// wait before it is sent (again) is dropped when it may not be sent any more.
    pub(super) async fn send(
        &self,
        target: &Target,
        mut request: http::Request<Vec<u8>>,
    ) -> Result<String, ContextError> {
        // The client looks again before each try: its rate limit, its retries and its connection may all have to wait.
        let (leadership, shard, primary) =
            (self.handles.leadership.clone(), self.handles.shard.clone(), self.primary.clone());
        let may_write = move || leadership.leads() && primary.as_ref().is_none_or(|primary| shard.owns(primary));
        request.extensions_mut().insert(SendCondition::new(may_write));
        self.may_write(target)?;
        let key_lost = async {
            match &self.primary {
                Some(primary) => {
                    self.handles.shard.lost(primary).await;
                    target.clone().key_lost(primary)
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // Not `request`, which logs what it cannot parse: that may be a secret.
            answer = self.handles.client.request_text(request) => answer.map_err(|error| match SendCondition::prevented(&error) {
                true => self.may_write(target).err().unwrap_or_else(|| target.clone().not_leading(NotLeading)),
                false => target.clone().failed(error),
            }),
            () = self.handles.leadership.lost() => Err(target.clone().not_leading(NotLeading)),
            error = key_lost => Err(error),
            () = self.writes.ended.cancelled() => Err(target.clone().failed(interrupted("the controller has ended"))),
        }
    }

    /// Runs a write to its end, whatever becomes of the caller. If nobody can say what came of it, `look_up` is run,
    /// which the caller does not wait for.
    pub(super) async fn see_through<T: Send + 'static>(
        &self,
        target: Target,
        write: impl Future<Output = Result<T, ContextError>> + Send + 'static,
        look_up: impl Future<Output = ()> + Send + 'static,
    ) -> Result<T, ContextError> {
        let (on_its_way, context, about) = (InFlightWrite::new(self), self.clone(), target.clone());
        let (tell, told) = oneshot::channel();
        let write = async move {
            let _on_its_way = on_its_way;
            let answer = write.await;
            let is_unsure = answer.as_ref().is_err_and(ContextError::is_unsure);
            let _ = tell.send(answer);
            if is_unsure && context.may_write(&target).is_ok() {
                tokio::select! {
                    () = look_up => {}
                    () = context.writes.ended.cancelled() => {}
                }
            }
        };
        let task = tokio::spawn(write.in_current_span());
        if let Ok(answer) = told.await {
            return answer;
        }
        match task.await.map_err(tokio::task::JoinError::try_into_panic) {
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            _ => Err(about.failed(interrupted("the process ends"))),
        }
    }
}

fn interrupted(why: &'static str) -> kube::Error {
    kube::Error::Service(std::io::Error::new(std::io::ErrorKind::Interrupted, why).into())
}
