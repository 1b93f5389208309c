//! One queue of a level.

use std::collections::VecDeque;

use super::{Id, Work};

/// Waiting requests in order, and sums over waiting and executing requests.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: VecDeque<Id>,
    /// The seat-seconds of waiting requests.
    pub(super) waiting_work: f64,
    pub(super) waiting_seats: usize,
    /// The number of executing requests.
    pub(super) executing: usize,
    pub(super) seats_in_use: usize,
    /// The virtual time at which the next request is dispatched.
    pub(super) next_dispatch: f64,
}

impl Queue {
    pub(super) fn push(&mut self, id: Id, work: &Work) {
        self.waiting.push_back(id);
        self.waiting_work += work.total();
        self.waiting_seats += work.max_seats();
    }

    pub(super) fn remove(&mut self, id: Id, work: &Work) {
        let Some(at) = self.waiting.iter().position(|waiting| *waiting == id) else { return };
        self.waiting.remove(at);
        self.waiting_work = if self.waiting.is_empty() { 0.0 } else { self.waiting_work - work.total() };
        self.waiting_seats -= work.max_seats();
    }

    /// Records that a request executes.
    pub(super) fn execute(&mut self, work: &Work) {
        self.executing += 1;
        self.seats_in_use += work.max_seats();
    }

    /// Returns the seats that its requests need or occupy.
    pub(super) fn seats(&self) -> usize {
        self.seats_in_use + self.waiting_seats
    }

    /// Returns whether no request waits or executes.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.executing == 0
    }

    /// Returns whether it is idle and no seat is occupied.
    pub(super) fn is_empty(&self) -> bool {
        self.is_idle() && self.seats_in_use == 0
    }
}
