//! A simulated environment for leases: seeded randomness, clocks that differ, messages that are slow or lost. Times are
//! in microseconds.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use tokio::time::Instant;

pub(crate) const SECOND: u64 = 1_000_000;

/// Reproducible random numbers.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn fraction(&mut self) -> f64 {
        self.below(1 << 32) as f64 / (1u64 << 32) as f64
    }
}

/// A process's own monotonic clock, with an arbitrary origin and rate.
pub(crate) struct LocalClock {
    base: Instant,
    rate: f64,
}

impl LocalClock {
    /// Rates from 0.85 to 1.2: any two differ by less than the default timing allows.
    pub(crate) fn new(origin: Instant, chance: &mut Chance) -> Self {
        let base = origin + Duration::from_micros(chance.below(1_000 * SECOND));
        Self { base, rate: 0.85 + 0.35 * chance.fraction() }
    }

    pub(crate) fn at(&self, time: u64) -> Instant {
        self.base + Duration::from_micros(time).mul_f64(self.rate)
    }

    /// Returns the real duration of a duration by this clock, rounded up.
    pub(crate) fn lasts(&self, local: Duration) -> u64 {
        local.div_f64(self.rate).as_micros() as u64 + 1
    }
}

/// Future events, in order.
pub(crate) struct Agenda<E> {
    times: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, E>,
    added: u64,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { times: BinaryHeap::new(), events: BTreeMap::new(), added: 0 }
    }

    pub(crate) fn add(&mut self, time: u64, event: E) {
        self.added += 1;
        self.events.insert(self.added, event);
        self.times.push(Reverse((time, self.added)));
    }

    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        let Reverse((time, number)) = self.times.pop()?;
        Some((time, self.events.remove(&number).expect("an event exists until it expires")))
    }
}

/// The fate of a request.
pub(crate) struct Trip {
    pub(crate) there: u64,
    pub(crate) back: u64,
    pub(crate) fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    /// The request never reaches the server.
    LostThere,
    /// The request is handled, but the response is lost.
    LostBack,
    /// The server responds with a failure and does not handle the request.
    Fails,
}

impl Trip {
    /// Returns a trip in an environment where `faults` percent of requests fail.
    pub(crate) fn new(chance: &mut Chance, faults: u64) -> Self {
        let fate = match chance.percent(faults) {
            false => Fate::Arrives,
            true => [Fate::LostThere, Fate::LostBack, Fate::Fails][chance.below(3) as usize],
        };
        let mut leg = || match chance.percent(faults / 2) {
            true => chance.between(0, 25 * SECOND),
            false => chance.between(100, 200_000),
        };
        Self { there: leg(), back: leg(), fate }
    }
}
