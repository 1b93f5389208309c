//! API Priority and Fairness: every request belongs to a flow of a FlowSchema, whose PriorityLevelConfiguration decides
//! how many requests run at a time and what happens to the others.
//!
//! The objects in the caches are compiled into an immutable [`Configuration`] whenever they change. Classification only
//! reads it. Requests of an exempt level, above all those of `system:masters`, then touch a few counters and nothing
//! else; others enter the [`QueueSet`] of their level under its lock, which is never held while waiting.
//!
//! `schema`, `level`, `shuffle`, `queue_set`, `demand`, `allocation` and `retry_after` are pure: they know neither
//! objects in the store nor the clock.

mod allocation;
mod configuration;
mod defaults;
mod demand;
pub(crate) mod histogram;
mod in_flight;
mod level;
mod maintain;
mod metrics;
mod queue_set;
mod retry_after;
mod schema;
mod seat;
mod shuffle;
mod statistics;
mod width;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit},
    time::Instant,
};

use self::{
    allocation::LevelDemand,
    configuration::{Configuration, Flow, Level},
    in_flight::InFlight,
    queue_set::{Rejection, Start},
    seat::{Seat, Waiting},
};
pub(crate) use self::{
    maintain::{bootstrap, is_configuration, run},
    schema::{Digest, Target},
    width::Width,
};
use crate::{
    limits::Limits,
    status::{ApiError, Result},
    storage::{ResourceCache, Storage},
};

/// The interval at which levels borrow seats from each other.
const REDISTRIBUTION: Duration = Duration::from_secs(10);

/// Limit that applies to a request.
pub(crate) enum Class {
    /// By the priority level of its flow.
    Flow(Arc<Flow>),
    /// By the number of requests, without API Priority and Fairness.
    InFlight,
}

/// The permission to run, until it is dropped.
pub(crate) enum Admitted {
    Seat(#[expect(dead_code, reason = "it is held until it is dropped")] Seat),
    InFlight(#[expect(dead_code, reason = "it is held until it is dropped")] Option<OwnedSemaphorePermit>),
}

impl Class {
    /// Adds the headers that show how a request was classified.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        if let Self::Flow(flow) = self {
            flow.add_headers(headers);
        }
    }
}

/// The flow control of a server.
pub(crate) struct FlowControl {
    schemas: Arc<ResourceCache>,
    levels: Arc<ResourceCache>,
    /// The seats of all levels together.
    total_seats: usize,
    /// The limits if API Priority and Fairness is off.
    in_flight: Option<InFlight>,
    start: Instant,
    /// Unpredictable, so that no user can choose a name whose flow has the queues of another user.
    hasher: RandomState,
    current: ArcSwap<Configuration>,
    /// Held while the next configuration is compiled, seats are redistributed or metrics are rendered.
    changing: Mutex<()>,
    /// Whether no limited request has begun since seats were last redistributed.
    at_rest: AtomicBool,
    demanded: Notify,
}

impl FlowControl {
    pub(crate) fn new(storage: &Storage, limits: &Limits) -> Self {
        let control = Self {
            schemas: storage.cache(&format!("/{}/{}/", maintain::GROUP, maintain::SCHEMAS)),
            levels: storage.cache(&format!("/{}/{}/", maintain::GROUP, maintain::LEVELS)),
            total_seats: limits.max_requests_inflight.saturating_add(limits.max_mutating_requests_inflight).max(1),
            in_flight: (!limits.priority_and_fairness).then(|| InFlight::new(limits)),
            start: Instant::now(),
            hasher: RandomState::new(),
            current: ArcSwap::default(),
            changing: Mutex::new(()),
            at_rest: AtomicBool::new(true),
            demanded: Notify::new(),
        };
        control.refresh();
        control
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Applies the objects whenever they change.
    pub(crate) fn follow(self: &Arc<Self>) {
        for cache in [&self.schemas, &self.levels] {
            let control = Arc::downgrade(self);
            cache.set_observer(Box::new(move |_, _| {
                if let Some(control) = control.upgrade() {
                    control.refresh();
                }
            }));
        }
    }

    /// Applies the objects in the caches.
    fn refresh(&self) {
        let _turn = self.changing.lock();
        let before = self.current.load_full();
        let next = Configuration::compile(&self.schemas, &self.levels, self.total_seats, &before, self.now());
        self.current.store(Arc::new(next));
    }

    /// Returns how a request is limited.
    pub(crate) fn classify(&self, request: &Digest<'_>) -> Class {
        match self.in_flight {
            None => Class::Flow(self.current.load().classify(request).clone()),
            Some(_) => Class::InFlight,
        }
    }

    /// Waits until a request may run, at most for `patience`. Rejects it with 429 otherwise.
    pub(crate) async fn enter(
        &self,
        class: &Class,
        request: &Digest<'_>,
        width: Width<'_>,
        patience: Duration,
    ) -> Result<Admitted> {
        let is_watch = width.is_watch();
        let flow = match (class, &self.in_flight) {
            (Class::Flow(flow), _) => flow,
            // Watches are limited only until they have begun, and only by priority levels.
            (Class::InFlight, Some(in_flight)) if !is_watch => return in_flight.admit(request).map(Admitted::InFlight),
            (Class::InFlight, _) => return Ok(Admitted::InFlight(None)),
        };
        let mut seat = self.admit(flow, request, width, patience).await?;
        seat.is_watch = is_watch;
        Ok(Admitted::Seat(seat))
    }

    async fn admit(
        &self,
        flow: &Arc<Flow>,
        request: &Digest<'_>,
        width: Width<'_>,
        patience: Duration,
    ) -> Result<Seat> {
        let begun = self.now();
        if flow.level.is_exempt() {
            return Ok(Seat::exempt(flow.clone(), self.start, begun));
        }
        let work = width.work(flow.level.max_seats);
        let hash = self.hasher.hash_one((&flow.name, flow.spec.distinguisher(request)));
        self.wake_redistribution();
        let waiting = {
            let mut queues = flow.level.shared.queues.lock();
            let start = queues.set.start(begun, hash, work);
            let length = queues.set.take_length_after_enqueue();
            queues.wake_dispatched();
            match start {
                Start::Run(id) => {
                    drop(queues);
                    return Ok(Seat::at_once(flow.clone(), id, work, length, (self.start, begun)));
                }
                Start::Wait(id) => {
                    flow.statistics.entered(work.max_seats(), length);
                    Waiting::new(flow.clone(), id, work, self.start, queues.wait(id))
                }
                Start::Reject(why) => {
                    drop(queues);
                    flow.statistics.entered(work.max_seats(), length);
                    return Err(self.reject(flow, why));
                }
            }
        };
        // Boxed to keep requests that run at once small.
        self.wait(flow, waiting, begun, patience).boxed().await
    }

    async fn wait(&self, flow: &Flow, mut waiting: Waiting, begun: Duration, patience: Duration) -> Result<Seat> {
        let dispatched = tokio::time::timeout(patience, waiting.dispatched()).await.is_ok();
        flow.statistics.waited(self.now().saturating_sub(begun), dispatched);
        if dispatched { Ok(waiting.into_seat()) } else { Err(self.reject(flow, Rejection::TimeOut)) }
    }

    fn reject(&self, flow: &Flow, why: Rejection) -> ApiError {
        flow.statistics.rejected(why);
        let mut retry = flow.level.shared.retry.lock();
        retry.rejected(self.now().as_secs());
        ApiError::too_many_requests(retry.seconds())
    }

    fn wake_redistribution(&self) {
        if self.at_rest.load(Ordering::Relaxed) && self.at_rest.swap(false, Ordering::Relaxed) {
            self.demanded.notify_one();
        }
    }

    /// Adapts the seats of each level to the demand in the last period. Returns whether there was any.
    fn redistribute(&self) -> bool {
        let _turn = self.changing.lock();
        let current = self.current.load_full();
        let now = self.now();
        let demands: Vec<LevelDemand> = current.levels.iter().map(|level| level.end_period(now)).collect();
        let (seats, fraction) = allocation::distribute(&demands);
        for (level, seats) in current.levels.iter().zip(seats) {
            level.set_seats(now, seats);
        }
        current.fair_fraction.set(fraction);
        demands.iter().any(|level| !level.exempt && level.demand.highest > 0)
    }

    /// Redistributes seats while there is demand. At rest it waits without a timer.
    pub(crate) async fn redistribution(&self) {
        loop {
            self.demanded.notified().await;
            loop {
                tokio::time::sleep(REDISTRIBUTION).await;
                if !self.redistribute() {
                    break;
                }
            }
            self.at_rest.store(true, Ordering::Relaxed);
        }
    }
}
