//! The requests of a priority level: which of them run, and which wait in which queue.
//!
//! Fair queuing for server requests, as in kube-apiserver: queues share the seats of the level equally. Every queue has
//! a virtual time at which its next request would start if all queues advanced at the same rate, and the request with
//! the earliest virtual finish is dispatched next. A request may occupy several seats, and may keep them for a moment
//! after it ended.
//!
//! Most requests find a free seat. They cost a few additions, however many queues there are: sums over the queues are
//! kept, and a request that would leave its queue at once is not compared with those of other queues.

mod queue;
mod requests;

use std::time::Duration;

pub(super) use self::requests::Id;
use self::{queue::Queue, requests::Requests};
use super::{
    demand::{Demand, PastDemand},
    shuffle,
};

/// The assumed duration of a request, until its real one is known.
const ESTIMATED_DURATION: f64 = 0.003;

/// The queues of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Queuing {
    /// The number of queues.
    pub(super) queues: usize,
    /// The number of queues among which a flow chooses.
    pub(super) hand_size: usize,
    /// The number of requests that can wait in a queue.
    pub(super) queue_length_limit: usize,
}

/// The work of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Work {
    /// Seats while it runs.
    pub(super) seats: usize,
    /// Seats after it ended, for work that it caused.
    pub(super) final_seats: usize,
    /// Time for which it keeps the seats after it ended.
    pub(super) linger: Duration,
}

/// Reasons why a request is rejected, as metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The level has neither a free seat nor queues.
    ConcurrencyLimit,
    /// The queue of the request is full.
    QueueFull,
    /// The request has waited too long.
    TimeOut,
}

/// The beginning of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// It runs.
    Run(Id),
    /// It waits until [`QueueSet::take_dispatched`] returns it.
    Wait(Id),
    /// It is rejected.
    Reject(Rejection),
}

/// The requests of a priority level. Times are since an arbitrary start and must not decrease.
#[derive(Debug)]
pub(super) struct QueueSet {
    queuing: Option<Queuing>,
    limit: usize,
    queues: Vec<Queue>,
    requests: Requests,
    /// The number of queues that are not idle.
    active_queues: usize,
    /// The seats that requests in queues, or from queues, need or occupy.
    queued_seats: usize,
    /// The virtual time: the seat-seconds that every queue was entitled to.
    virtual_time: f64,
    updated: Duration,
    /// The queue that was dispatched from last.
    robin: usize,
    enqueued: usize,
    waiting: usize,
    executing: usize,
    seats_in_use: usize,
    seats_waiting: usize,
    dispatched: Vec<Id>,
    demand: Demand,
    /// Number of times that the next request had to wait because it needs more seats than are free.
    pub(super) no_accommodation: u64,
    /// The length of the queue that a request entered last, with that request.
    length_after_enqueue: Option<usize>,
}

#[derive(Debug)]
struct Request {
    work: Work,
    queue: Option<usize>,
    /// The virtual time of its arrival.
    arrived: f64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Waiting,
    Executing { since: Duration },
    Lingering,
}

impl Work {
    /// One seat for the duration of the request.
    pub(super) const ONE: Self = Self { seats: 1, final_seats: 0, linger: Duration::ZERO };

    /// The seats that it occupies from beginning to end.
    pub(super) fn max_seats(&self) -> usize {
        self.seats.max(self.final_seats)
    }

    /// The estimated seat-seconds.
    fn total(&self) -> f64 {
        self.seats as f64 * ESTIMATED_DURATION + self.final_seats as f64 * self.linger.as_secs_f64()
    }
}

impl QueueSet {
    pub(super) fn new(now: Duration, queuing: Option<Queuing>, limit: usize) -> Self {
        let mut set = Self {
            queuing: None,
            limit: 0,
            queues: Vec::new(),
            requests: Requests::default(),
            active_queues: 0,
            queued_seats: 0,
            virtual_time: 0.0,
            updated: now,
            robin: 0,
            enqueued: 0,
            waiting: 0,
            executing: 0,
            seats_in_use: 0,
            seats_waiting: 0,
            dispatched: Vec::new(),
            demand: Demand::new(now),
            no_accommodation: 0,
            length_after_enqueue: None,
        };
        set.configure(now, queuing, limit);
        set
    }

    /// Changes the configuration. Requests that wait or run stay.
    pub(super) fn configure(&mut self, now: Duration, queuing: Option<Queuing>, limit: usize) {
        self.advance(now);
        let wanted = queuing.map_or(0, |queuing| queuing.queues);
        if self.queues.len() < wanted {
            self.queues.resize_with(wanted, Queue::default);
        }
        self.queuing = queuing;
        self.limit = limit;
        self.drop_unused_queues();
        self.dispatch(now);
    }

    /// The current number of seats.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The demand in past periods.
    pub(super) fn past_demand(&self) -> PastDemand {
        self.demand.past
    }

    /// The demand for seats.
    pub(super) fn demand_mut(&mut self) -> &mut Demand {
        &mut self.demand
    }

    /// Returns the length of the queue that a request has entered since the last call, with that request.
    pub(super) fn take_length_after_enqueue(&mut self) -> Option<usize> {
        self.length_after_enqueue.take()
    }

    /// Begins a request of the flow with this hash.
    pub(super) fn start(&mut self, now: Duration, hash: u64, work: Work) -> Start {
        self.advance(now);
        let Some(queuing) = self.queuing else {
            if !self.has_room(work.max_seats()) {
                return Start::Reject(Rejection::ConcurrencyLimit);
            }
            return Start::Run(self.execute_new(now, work, None));
        };
        if self.waiting == 0 && self.seats_in_use < self.limit && self.has_room(work.max_seats()) {
            return Start::Run(self.start_at_once(now, queuing, hash, work));
        }
        self.start_in_queue(now, queuing, hash, work)
    }

    /// Begins a request that would leave its queue as soon as it has entered it, with the same result.
    fn start_at_once(&mut self, now: Duration, queuing: Queuing, hash: u64, work: Work) -> Id {
        // No request waits, so the queues of the hand have equal work, and the first to consider is chosen.
        let index = shuffle::card(queuing.queues, self.next_offset(queuing), hash);
        let queue = &mut self.queues[index];
        let next = if queue.is_idle() { self.virtual_time } else { queue.next_dispatch.max(self.virtual_time) };
        queue.next_dispatch = next + work.total();
        self.length_after_enqueue = Some(1);
        self.robin = index;
        self.execute_new(now, work, Some(index))
    }

    /// Begins a request in its queue, and dispatches those whose turn it is.
    fn start_in_queue(&mut self, now: Duration, queuing: Queuing, hash: u64, work: Work) -> Start {
        let index = self.choose_queue(queuing, hash);
        if self.seats_in_use >= self.limit && self.queues[index].waiting.len() >= queuing.queue_length_limit {
            return Start::Reject(Rejection::QueueFull);
        }
        let id = self.enqueue(now, index, work);
        self.dispatch(now);
        match self.dispatched.iter().position(|dispatched| *dispatched == id) {
            Some(at) => {
                self.dispatched.swap_remove(at);
                Start::Run(id)
            }
            None => Start::Wait(id),
        }
    }

    /// Removes a request that waits. Returns `false` if it is executing already.
    pub(super) fn cancel(&mut self, now: Duration, id: Id) -> bool {
        self.advance(now);
        let Some(Request { state: State::Waiting, queue: Some(index), work, .. }) = self.requests.get(id) else {
            return false;
        };
        let (index, work) = (*index, *work);
        self.requests.remove(id);
        self.change(index, |queue| queue.remove(id, &work));
        self.left_queue(now, &work);
        self.bound_next_dispatch(index);
        self.drop_unused_queues();
        self.dispatch(now);
        true
    }

    /// Ends a request that was executing. If its seats stay occupied, returns for how long: then call
    /// [`QueueSet::release`].
    pub(super) fn finish(&mut self, now: Duration, id: Id) -> Option<Duration> {
        self.advance(now);
        let request = self.requests.get_mut(id)?;
        let State::Executing { since } = request.state else { return None };
        request.state = State::Lingering;
        let (queue, work) = (request.queue, request.work);
        self.executing -= 1;
        if let Some(index) = queue {
            let actual = now.saturating_sub(since).as_secs_f64();
            self.change(index, |queue| {
                queue.executing -= 1;
                // Corrects the estimate by the real duration.
                queue.next_dispatch -= work.seats as f64 * (ESTIMATED_DURATION - actual);
            });
            self.bound_next_dispatch(index);
        }
        if work.linger > Duration::ZERO {
            self.dispatch(now);
            return Some(work.linger);
        }
        self.release(now, id);
        None
    }

    /// Frees the seats of a request that has ended.
    pub(super) fn release(&mut self, now: Duration, id: Id) {
        self.advance(now);
        let Some(request) = self.requests.remove(id) else { return };
        let seats = request.work.max_seats();
        self.seats_in_use -= seats;
        if let Some(index) = request.queue {
            self.change(index, |queue| queue.seats_in_use -= seats);
        }
        self.note_demand(now);
        self.drop_unused_queues();
        self.dispatch(now);
    }

    /// Returns the requests that have left a queue to execute since the last call.
    pub(super) fn take_dispatched(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.dispatched)
    }

    /// Changes a queue, and the sums over all queues with it.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Queue)) {
        let queue = &mut self.queues[index];
        let (was_idle, seats) = (queue.is_idle(), queue.seats());
        change(queue);
        self.active_queues = self.active_queues + usize::from(!queue.is_idle()) - usize::from(!was_idle);
        self.queued_seats = self.queued_seats + queue.seats() - seats;
    }

    /// Returns the place in the hand of the next request that is considered first. It rotates, so that flows with
    /// overlapping hands are not biased.
    fn next_offset(&mut self, queuing: Queuing) -> usize {
        let offset = self.enqueued % queuing.hand_size;
        self.enqueued += 1;
        offset
    }

    /// Chooses the queue of the hand with the least work waiting.
    fn choose_queue(&mut self, queuing: Queuing, hash: u64) -> usize {
        let hand = shuffle::deal(queuing.queues, queuing.hand_size, hash);
        let offset = self.next_offset(queuing);
        let rank = |place: usize| (place + queuing.hand_size - offset) % queuing.hand_size;
        let least = hand.enumerate().min_by(|(at, a), (bt, b)| {
            let work = self.queues[*a].waiting_work.total_cmp(&self.queues[*b].waiting_work);
            work.then_with(|| rank(*at).cmp(&rank(*bt)))
        });
        least.map_or(0, |(_, index)| index)
    }

    fn enqueue(&mut self, now: Duration, index: usize, work: Work) -> Id {
        let arrived = self.virtual_time;
        let id = self.requests.insert(Request { work, queue: Some(index), arrived, state: State::Waiting });
        self.change(index, |queue| {
            if queue.is_idle() {
                queue.next_dispatch = arrived;
            }
            queue.push(id, &work);
        });
        self.length_after_enqueue = Some(self.queues[index].waiting.len());
        self.waiting += 1;
        self.seats_waiting += work.max_seats();
        self.note_demand(now);
        self.bound_next_dispatch(index);
        id
    }

    /// Dispatches requests while there are seats.
    fn dispatch(&mut self, now: Duration) {
        while self.waiting > 0 && self.seats_in_use < self.limit {
            let Some((index, id, work)) = self.next_to_dispatch() else { return };
            if !self.has_room(work.max_seats()) {
                // It is next; others do not overtake it.
                self.no_accommodation += 1;
                return;
            }
            self.robin = index;
            self.change(index, |queue| {
                queue.remove(id, &work);
                queue.next_dispatch += work.total();
                queue.execute(&work);
            });
            self.left_queue(now, &work);
            if let Some(request) = self.requests.get_mut(id) {
                request.state = State::Executing { since: now };
            }
            self.executes(now, &work);
            self.bound_next_dispatch(index);
            self.dispatched.push(id);
        }
    }

    /// Returns the request with the earliest virtual finish; among equals, the one of the next queue in turn.
    fn next_to_dispatch(&self) -> Option<(usize, Id, Work)> {
        let turns = (self.robin + 1..self.queues.len()).chain(0..=self.robin);
        let heads = turns.filter_map(|index| {
            let queue = &self.queues[index];
            let id = *queue.waiting.front()?;
            let work = self.requests.get(id)?.work;
            Some((index, id, work, queue.next_dispatch + work.total()))
        });
        heads.min_by(|a, b| a.3.total_cmp(&b.3)).map(|(index, id, work, _)| (index, id, work))
    }

    /// Executes a request that did not wait.
    fn execute_new(&mut self, now: Duration, work: Work, queue: Option<usize>) -> Id {
        if let Some(index) = queue {
            self.change(index, |queue| queue.execute(&work));
        }
        self.executes(now, &work);
        let arrived = self.virtual_time;
        self.requests.insert(Request { work, queue, arrived, state: State::Executing { since: now } })
    }

    fn executes(&mut self, now: Duration, work: &Work) {
        self.executing += 1;
        self.seats_in_use += work.max_seats();
        self.note_demand(now);
    }

    /// Returns whether there are enough seats. A request that needs more seats than the level has runs alone.
    fn has_room(&self, seats: usize) -> bool {
        if seats > self.limit { self.limit > 0 && self.executing == 0 } else { self.seats_in_use + seats <= self.limit }
    }

    fn left_queue(&mut self, now: Duration, work: &Work) {
        self.waiting -= 1;
        self.seats_waiting -= work.max_seats();
        self.note_demand(now);
    }

    fn note_demand(&mut self, now: Duration) {
        self.demand.set(now, (self.seats_in_use + self.seats_waiting) as f64);
    }

    /// A queue that could not use its share does not save it up: nothing is dispatched before its virtual arrival.
    fn bound_next_dispatch(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        if let Some(oldest) = queue.waiting.front().and_then(|id| self.requests.get(*id)) {
            queue.next_dispatch = queue.next_dispatch.max(oldest.arrived);
        }
    }

    /// Advances the virtual time. Must be called before any change.
    fn advance(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.updated).as_secs_f64();
        self.updated = self.updated.max(now);
        if self.executing == 0 && self.waiting == 0 || elapsed == 0.0 {
            return;
        }
        if self.active_queues > 0 {
            let seats = self.queued_seats.min(self.limit) as f64;
            self.virtual_time += seats / self.active_queues as f64 * elapsed;
        }
    }

    /// Drops the last queues if there are more than configured and they are empty.
    fn drop_unused_queues(&mut self) {
        let wanted = self.queuing.map_or(0, |queuing| queuing.queues);
        while self.queues.len() > wanted && self.queues.last().is_some_and(Queue::is_empty) {
            self.queues.pop();
        }
        if self.robin >= self.queues.len() {
            self.robin = 0;
        }
    }
}

#[cfg(test)]
mod tests;
