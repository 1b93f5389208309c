//! Writes that are on their way.
//!
//! A write is seen through even if its caller goes away (a reconcile that took too long, the siblings of one that
//! failed): what the server has done is in the caches when the object's turn comes again. It is not seen through when
//! this process must not write any more, nor when the controller has ended.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Context, ContextError, error::Target};
use crate::{client::OnlyWhile, lease::NotLeading};

/// The writes of a controller that are on their way. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes {
    /// How many.
    count: Arc<watch::Sender<usize>>,
    ended: CancellationToken,
}

/// One of them, however it ends.
struct OnItsWay(Arc<watch::Sender<usize>>);

impl OnItsWay {
    fn new(writes: &Writes) -> Self {
        writes.count.send_modify(|count| *count += 1);
        Self(writes.count.clone())
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Writes {
    /// Lets them finish, but not for longer than `patience`. None is sent after that.
    pub(crate) async fn end(&self, patience: Duration) {
        let mut count = self.count.subscribe();
        if tokio::time::timeout(patience, count.wait_for(|count| *count == 0)).await.is_err() {
            tracing::warn!(writes = *self.count.borrow(), "writes without an answer are given up");
        }
        self.ended.cancel();
    }
}

impl Context {
    /// Whether a write may be sent now.
    fn may_write(&self, target: &Target) -> Result<(), ContextError> {
        self.parts.leadership.check().map_err(|error| target.clone().not_leading(error))?;
        match &self.primary {
            Some(primary) if !self.parts.shard.owns(primary) => Err(target.clone().key_lost(primary)),
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
            (self.parts.leadership.clone(), self.parts.shard.clone(), self.primary.clone());
        let may_write = move || leadership.leads() && primary.as_ref().is_none_or(|primary| shard.owns(primary));
        request.extensions_mut().insert(OnlyWhile::new(may_write));
        self.may_write(target)?;
        let key_lost = async {
            match &self.primary {
                Some(primary) => {
                    self.parts.shard.lost(primary).await;
                    target.clone().key_lost(primary)
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // Not `request`, which logs what it cannot parse: that may be a secret.
            answer = self.parts.client.request_text(request) => answer.map_err(|error| match OnlyWhile::withheld(&error) {
                true => self.may_write(target).err().unwrap_or_else(|| target.clone().not_leading(NotLeading)),
                false => target.clone().failed(error),
            }),
            () = self.parts.leadership.lost() => Err(target.clone().not_leading(NotLeading)),
            error = key_lost => Err(error),
            () = self.writes.ended.cancelled() => Err(target.clone().failed(interrupted("the controller has ended"))),
        }
    }

    /// Runs a write to its end, whatever becomes of the caller.
    pub(super) async fn see_through<T: Send + 'static>(
        &self,
        target: Target,
        write: impl Future<Output = Result<T, ContextError>> + Send + 'static,
    ) -> Result<T, ContextError> {
        let on_its_way = OnItsWay::new(&self.writes);
        let write = async move {
            let _on_its_way = on_its_way;
            write.await
        };
        match tokio::spawn(write.in_current_span()).await {
            Ok(answer) => answer,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(target.failed(interrupted("the process ends"))),
            },
        }
    }
}

fn interrupted(why: &'static str) -> kube::Error {
    kube::Error::Service(std::io::Error::new(std::io::ErrorKind::Interrupted, why).into())
}
