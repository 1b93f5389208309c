//! Writes in flight.
//!
//! A write continues even if its caller is dropped (after a timeout, or because a sibling failed), and the outcome of a
//! write without response is looked up: the caches contain what the API server has done before the object is reconciled
//! again. Nothing continues when this process may no longer write, or when the controller has ended.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use hashbrown::HashMap;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    Context, ContextError,
    error::RequestSubject,
    look_up::{LookUp, UnknownOutcomes},
};
use crate::{
    access::Origin,
    client::{SendCondition, TimeLimit},
    key::ObjectKey,
    lease::NotLeading,
};

/// The writes of a controller that are in flight. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightWrites {
    in_flight: Arc<watch::Sender<InFlight>>,
    unknown_outcomes: UnknownOutcomes,
    ended: CancellationToken,
}

/// Writes by the object that is being reconciled.
#[derive(Debug, Default)]
struct InFlight {
    /// Number of writes so far.
    begun: u64,
    /// Their numbers, in ascending order.
    by_primary: HashMap<Option<ObjectKey>, Vec<u64>>,
}

/// One write in flight, until it is dropped.
struct InFlightWrite {
    in_flight: Arc<watch::Sender<InFlight>>,
    primary: Option<ObjectKey>,
    number: u64,
}

impl InFlightWrite {
    fn new(context: &Context) -> Self {
        let (in_flight, primary) = (context.writes.in_flight.clone(), context.primary.clone());
        let mut number = 0;
        in_flight.send_modify(|InFlight { begun, by_primary }| {
            *begun += 1;
            number = *begun;
            by_primary.entry(primary.clone()).or_default().push(number);
        });
        Self { in_flight, primary, number }
    }
}

impl Drop for InFlightWrite {
    fn drop(&mut self) {
        self.in_flight.send_modify(|InFlight { by_primary, .. }| {
            if let Some(numbers) = by_primary.get_mut(&self.primary) {
                numbers.retain(|number| *number != self.number);
                if numbers.is_empty() {
                    by_primary.remove(&self.primary);
                }
            }
        });
    }
}

impl InFlightWrites {
    /// Resolves when the writes for a key that are in flight now are in the caches. Later ones are not waited for: the
    /// daemon of an object may always have one in flight.
    pub(super) async fn settled(&self, key: &ObjectKey) {
        let key = {
            let in_flight = self.in_flight.borrow();
            // Usually there are none.
            if in_flight.by_primary.is_empty() {
                return;
            }
            Some(key.clone())
        };
        let numbers = |in_flight: &InFlight| {
            let numbers = in_flight.by_primary.get(&key)?;
            Some((*numbers.first()?, *numbers.last()?))
        };
        let Some((_, last)) = numbers(&self.in_flight.borrow()) else { return };
        let have_ended = |in_flight: &InFlight| numbers(in_flight).is_none_or(|(first, _)| first > last);
        let _ = self.in_flight.subscribe().wait_for(have_ended).await;
    }

    pub(super) fn unknown_outcomes(&self) -> &UnknownOutcomes {
        &self.unknown_outcomes
    }

    /// Lets writes finish for at most `patience`. None is sent after that.
    pub(crate) async fn end(&self, patience: Duration) {
        let mut in_flight = self.in_flight.subscribe();
        let have_ended = in_flight.wait_for(|in_flight| in_flight.by_primary.is_empty());
        if tokio::time::timeout(patience, have_ended).await.is_err() {
            let writes: usize = self.in_flight.borrow().by_primary.values().map(Vec::len).sum();
            tracing::warn!(writes, "giving up on writes without response");
        }
        self.ended.cancel();
    }
}

impl Context {
    /// Checks whether a write may be sent now.
    pub(super) fn may_write(&self, target: &RequestSubject) -> Result<(), ContextError> {
        self.handles.leadership.check().map_err(|error| target.clone().not_leading(error))?;
        match &self.primary {
            Some(primary) if !self.handles.shard.owns(primary) => Err(target.clone().key_lost(primary)),
            _ => Ok(()),
        }
    }

    /// Returns the sender of a request.
    pub(super) fn origin(&self, target: &RequestSubject) -> Origin {
        let operation = target.is_typed.then(|| (target.verb, target.kind.clone()));
        Origin { controller: self.handles.controller.clone(), operation }
    }

    /// Returns the error of a request, and logs the missing permission if that is the cause.
    pub(super) fn failed(&self, target: RequestSubject, error: kube::Error) -> ContextError {
        if let kube::Error::Api(status) = &error {
            self.handles.denials.report(status, || self.origin(&target));
        }
        target.failed(error)
    }

    /// Sends a write if that is allowed. There is no await between the check and the request; a request that has to
    /// wait before it is sent (again) is dropped when it may no longer be sent.
    pub(super) async fn send(
        &self,
        target: &RequestSubject,
        mut request: http::Request<Vec<u8>>,
    ) -> Result<String, ContextError> {
        // The client checks again before each attempt, as its rate limit, its retries and its connection may all have
        // to wait.
        let (leadership, shard, primary) =
            (self.handles.leadership.clone(), self.handles.shard.clone(), self.primary.clone());
        let may_write = move || leadership.leads() && primary.as_ref().is_none_or(|primary| shard.owns(primary));
        self.options.add_to(&mut request);
        request.extensions_mut().insert(SendCondition::new(may_write));
        request.extensions_mut().insert(self.origin(target));
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
            answer = self.respond(request) => answer.map_err(|error| match SendCondition::prevented(&error) {
                true => self.may_write(target).err().unwrap_or_else(|| target.clone().not_leading(NotLeading)),
                false => self.failed(target.clone(), error),
            }),
            () = self.handles.leadership.lost() => Err(target.clone().not_leading(NotLeading)),
            error = key_lost => Err(error),
            () = self.writes.ended.cancelled() => Err(target.clone().failed(interrupted("the controller ended"))),
        }
    }

    /// Sends a request, and returns the text of the response.
    pub(super) async fn respond(&self, mut request: http::Request<Vec<u8>>) -> kube::Result<String> {
        let limit = TimeLimit::new(self.handles.request_timeout);
        limit.attach(request.extensions_mut());
        // Not `request`, which logs responses that it cannot parse: they may contain a secret.
        limit.run(self.handles.client.request_text(request)).await?
    }

    /// Runs a write to its end, even if the caller is dropped. If its outcome is unknown, it is looked up, for which the
    /// caller does not wait.
    pub(super) async fn see_through<T: Send + 'static>(
        &self,
        target: RequestSubject,
        write: impl Future<Output = Result<T, ContextError>> + Send + 'static,
        look_up: LookUp,
    ) -> Result<T, ContextError> {
        let (on_its_way, context, about) = (InFlightWrite::new(self), self.clone(), target.clone());
        let (tell, told) = oneshot::channel();
        let write = async move {
            let _on_its_way = on_its_way;
            let answer = write.await;
            let unsure = answer.as_ref().err().filter(|error| error.is_unsure());
            if unsure.is_some_and(ContextError::is_timeout) {
                let RequestSubject { verb, kind, key, .. } = &target;
                tracing::warn!(%verb, %kind, %key, "a write got no response in time; looking up its outcome");
            }
            let is_unsure = unsure.is_some();
            let _ = tell.send(answer);
            if is_unsure && context.may_write(&target).is_ok() {
                tokio::select! {
                    () = look_up.run(&context) => {}
                    () = context.writes.ended.cancelled() => {}
                }
            }
        };
        let task = tokio::spawn(write.in_current_span().boxed());
        if let Ok(answer) = told.await {
            return answer;
        }
        match task.await.map_err(tokio::task::JoinError::try_into_panic) {
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            _ => Err(about.failed(interrupted("the process is ending"))),
        }
    }
}

pub(super) fn interrupted(why: &'static str) -> kube::Error {
    kube::Error::Service(std::io::Error::new(std::io::ErrorKind::Interrupted, why).into())
}
