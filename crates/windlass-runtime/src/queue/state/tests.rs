//! The state machine against a naive model, and its cost.

use std::{cell::Cell, hash::Hasher};

use proptest::prelude::*;

use super::*;
use crate::queue::{Bucket, ready::FAIR_TURN};

fn exact() -> RateLimit {
    RateLimit { jitter: 0.0, overall: None, ..RateLimit::default() }
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

type Wish = (Priority, When);

/// The queue as a few lists that are searched linearly.
#[derive(Default)]
struct Model {
    /// In the order in which they became ready.
    ready: Vec<(u8, Priority)>,
    /// In the order in which they were delayed.
    delayed: Vec<(u8, Priority, Instant, bool)>,
    held: Vec<(u8, Priority, Option<Wish>)>,
    failures: [u32; 8],
    turn: u32,
    keep_backoff: bool,
}

impl Model {
    fn ripen(&mut self, now: Instant) {
        while let Some(at) = (0..self.delayed.len()).min_by_key(|at| self.delayed[*at].2) {
            if self.delayed[at].2 > now {
                break;
            }
            let (key, priority, ..) = self.delayed.remove(at);
            self.ready.push((key, priority));
        }
    }

    fn place(&mut self, now: Instant, key: u8, priority: Priority, when: When, retry: bool) {
        match when {
            When::At(until) if until > now => self.delayed.push((key, priority, until, retry)),
            _ => self.ready.push((key, priority)),
        }
    }

    fn add(&mut self, now: Instant, key: u8, priority: Priority, when: When) {
        self.ripen(now);
        if let Some(held) = self.held.iter_mut().find(|held| held.0 == key) {
            held.2 = Some(held.2.map_or((priority, when), |again| (again.0.max(priority), again.1.min(when))));
        } else if let Some(at) = self.ready.iter().position(|ready| ready.0 == key) {
            if self.ready[at].1 < priority {
                self.ready.remove(at);
                self.ready.push((key, priority));
            }
        } else if let Some(at) = self.delayed.iter().position(|delayed| delayed.0 == key) {
            let (_, before, until, retry) = self.delayed[at];
            self.delayed[at].1 = before.max(priority);
            if when < When::At(until) && !(retry && self.keep_backoff) {
                self.delayed.remove(at);
                self.place(now, key, before.max(priority), when, false);
            }
        } else {
            self.place(now, key, priority, when, false);
        }
    }

    fn pop(&mut self, now: Instant) -> Option<(u8, Priority, u32)> {
        self.ripen(now);
        let highest = self.ready.iter().map(|ready| ready.1).max()?;
        self.turn += 1;
        let fair = self.turn == FAIR_TURN;
        let at = if fair { 0 } else { self.ready.iter().position(|ready| ready.1 == highest)? };
        self.turn %= FAIR_TURN;
        let (key, priority) = self.ready.remove(at);
        self.held.push((key, priority, None));
        Some((key, priority, self.failures[usize::from(key)]))
    }

    fn finish(&mut self, now: Instant, at: usize, verdict: Verdict) {
        self.ripen(now);
        let (key, priority, again) = self.held.remove(at);
        let failures = &mut self.failures[usize::from(key)];
        let own = match verdict {
            Verdict::Done => {
                *failures = 0;
                None
            }
            Verdict::After(delay) => {
                *failures = 0;
                Some((delay, false))
            }
            Verdict::RetryAfter(delay) => {
                *failures += 1;
                Some((delay, false))
            }
            Verdict::Retry => {
                *failures += 1;
                Some((milliseconds(5 << (*failures - 1).min(20)).min(Duration::from_secs(1000)), true))
            }
        };
        let wanted = match (own, again) {
            (None, None) => return,
            (None, Some((priority, when))) => (priority, when, false),
            (Some((delay, retry)), None) => (priority, When::after(now, delay), retry),
            (Some((delay, true)), Some((other, _))) if self.keep_backoff => {
                (priority.max(other), When::after(now, delay), true)
            }
            (Some((delay, retry)), Some((other, when))) => {
                let own = When::after(now, delay);
                (priority.max(other), own.min(when), retry && own < when)
            }
        };
        self.place(now, key, wanted.0, wanted.1, wanted.2);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, i32, u64),
    Pop,
    Finish(usize, Verdict),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let delay = prop_oneof![3 => Just(0u64), 2 => 1..60u64];
    let priority = prop_oneof![Just(-100), Just(0), Just(0), Just(7)];
    let verdict = prop_oneof![
        2 => Just(Verdict::Done),
        2 => Just(Verdict::Retry),
        1 => (0..60u64).prop_map(|delay| Verdict::After(milliseconds(delay))),
        1 => (0..60u64).prop_map(|delay| Verdict::RetryAfter(milliseconds(delay))),
    ];
    let step = prop_oneof![
        6 => (0..8u8, priority, delay).prop_map(|(key, priority, delay)| Step::Add(key, priority, delay)),
        5 => Just(Step::Pop),
        4 => (0..8usize, verdict).prop_map(|(at, verdict)| Step::Finish(at, verdict)),
        2 => (1..40u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_behaves_like_a_naive_model(steps in steps(), keep_backoff: bool) {
        let mut now = Instant::now();
        let mut state = State::new(RateLimit { keep_backoff, ..exact() }, 0, now);
        let mut model = Model { keep_backoff, ..Model::default() };
        let mut held: Vec<Taken<u8>> = Vec::new();
        for step in steps {
            match step {
                Step::Add(key, priority, delay) => {
                    let when = When::after(now, milliseconds(delay));
                    state.add(now, key, Priority(priority), when);
                    model.add(now, key, Priority(priority), when);
                }
                Step::Pop => {
                    let taken = state.pop(now);
                    let told = taken.as_ref().map(|taken| (taken.key, taken.priority, taken.failures));
                    prop_assert_eq!(told, model.pop(now));
                    if let Some(taken) = taken {
                        prop_assert!(held.iter().all(|other| other.key != taken.key), "two hold {}", taken.key);
                        held.push(taken);
                    }
                }
                Step::Finish(at, verdict) if at < held.len() => {
                    state.finish(now, held.remove(at).slot, verdict);
                    model.finish(now, at, verdict);
                }
                Step::Finish(..) => {}
                Step::Pass(time) => now += milliseconds(time),
            }
            prop_assert_eq!(state.ready(now), { model.ripen(now); model.ready.len() });
            prop_assert_eq!(state.delayed(), model.delayed.len());
            prop_assert_eq!(state.next_deadline(), model.delayed.iter().map(|delayed| delayed.2).min());
            prop_assert_eq!(state.known(), model.ready.len() + model.delayed.len() + held.len());
        }
        // A draining queue hands out keys that are ready or wanted again, and nothing else.
        state.close(now, true);
        model.delayed.clear();
        for at in (0..held.len()).rev() {
            prop_assert!(!state.is_over() || (model.ready.is_empty() && model.held.iter().all(|held| !matches!(held.2, Some((_, When::Now))))));
            state.finish(now, held.remove(at).slot, Verdict::Retry);
            model.finish(now, at, Verdict::Done);
        }
        model.delayed.clear();
        while let Some(taken) = state.pop(now) {
            prop_assert_eq!(Some((taken.key, taken.priority)), model.pop(now).map(|(key, priority, _)| (key, priority)));
            state.finish(now, taken.slot, Verdict::After(Duration::ZERO));
        }
        prop_assert!(model.pop(now).is_none() && state.is_over());
        prop_assert_eq!(state.known(), 0);
    }
}

#[test]
fn a_low_priority_is_not_starved_by_a_steady_flow_of_changes() {
    let now = Instant::now();
    let mut state = State::new(exact(), 0, now);
    for key in 0..10 {
        state.add(now, key, Priority::LOW, When::Now);
    }
    let mut low = Vec::new();
    for taken in 0..10 * FAIR_TURN {
        state.add(now, 1000 + taken * 2, Priority::NORMAL, When::Now);
        state.add(now, 1001 + taken * 2, Priority(taken as i32 % 3), When::Now);
        let next = state.pop(now).unwrap();
        state.finish(now, next.slot, Verdict::Done);
        if next.key < 1000 {
            low.push(next.key);
        }
    }
    assert_eq!(low, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_key_that_is_added_all_the_time_does_not_overtake() {
    let now = Instant::now();
    let mut state = State::new(exact(), 0, now);
    for key in 0..5 {
        state.add(now, key, Priority::NORMAL, When::Now);
    }
    let mut seen = Vec::new();
    for _ in 0..10 {
        state.add(now, 0, Priority::NORMAL, When::Now);
        let next = state.pop(now).unwrap();
        state.add(now, 0, Priority::NORMAL, When::Now);
        state.add(now, next.key, Priority::NORMAL, When::Now);
        state.finish(now, next.slot, Verdict::Done);
        seen.push(next.key);
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
}

#[test]
fn retries_of_all_keys_share_a_bucket_and_return_unused_tokens() {
    let now = Instant::now();
    let overall = Some(Bucket { per_second: 10.0, burst: 1 });
    let mut state = State::new(RateLimit { overall, ..exact() }, 0, now);
    let fail = |state: &mut State<&str>, key| {
        state.add(now, key, Priority::NORMAL, When::Now);
        let taken = state.pop(now).unwrap();
        assert_eq!(taken.key, key);
        state.finish(now, taken.slot, Verdict::Retry);
    };
    fail(&mut state, "first");
    // An event storm on a failing key takes no token twice.
    for _ in 0..50 {
        fail(&mut state, "stormy");
    }
    fail(&mut state, "last");
    let mut waits = Vec::new();
    while let Some(deadline) = state.next_deadline() {
        let taken = state.pop(deadline).unwrap();
        waits.push((taken.key, (deadline - now).as_millis()));
    }
    // The storm's own backoff has grown to the longest.
    assert_eq!(waits, [("first", 5), ("last", 200), ("stormy", 1_000_000)]);
}

#[test]
fn delays_that_clocks_cannot_represent_are_harmless() {
    let now = Instant::now();
    let limit = RateLimit { base: Duration::MAX, max: Duration::MAX, ..RateLimit::default() };
    let mut state = State::new(limit, 0, now);
    state.add(now, "a", Priority::NORMAL, When::after(now, Duration::MAX));
    state.add(now, "a", Priority(i32::MIN), When::Now);
    let taken = state.pop(now).unwrap();
    state.finish(now, taken.slot, Verdict::Retry);
    assert!(state.pop(now + milliseconds(1)).is_none());
}

thread_local! {
    static HASHED: Cell<usize> = const { Cell::new(0) };
    static COMPARED: Cell<usize> = const { Cell::new(0) };
    static CLONED: Cell<usize> = const { Cell::new(0) };
}

/// A key that counts its operations.
struct Counting(u32);

impl Hash for Counting {
    fn hash<H: Hasher>(&self, state: &mut H) {
        HASHED.set(HASHED.get() + 1);
        self.0.hash(state);
    }
}

impl PartialEq for Counting {
    fn eq(&self, other: &Self) -> bool {
        COMPARED.set(COMPARED.get() + 1);
        self.0 == other.0
    }
}

impl Eq for Counting {}

impl Clone for Counting {
    fn clone(&self) -> Self {
        CLONED.set(CLONED.get() + 1);
        Self(self.0)
    }
}

#[test]
fn a_million_keys_cost_a_million_times_one_key() {
    const KEYS: u32 = 1_000_000;
    let now = Instant::now();
    let mut state = State::new(exact(), 0, now);
    for key in 0..KEYS {
        state.add(now, Counting(key), Priority::LOW, When::Now);
    }
    assert_eq!(HASHED.replace(0), KEYS as usize, "a key is hashed once, however much the queue grows");
    // New keys are compared only if a few bits of their hashes agree. Hashes differ from run to run, and with them how
    // often that happens: for a tenth of the keys, or for a quarter.
    let alike = COMPARED.replace(0);
    assert!(alike < KEYS as usize / 2, "{alike} comparisons to add {KEYS} keys");
    for key in 0..KEYS {
        // Half of them are raised, which takes them out of the middle of a list.
        if key % 2 == 0 {
            state.add(now, Counting(key), Priority::NORMAL, When::Now);
        }
    }
    let found = COMPARED.replace(0);
    assert!(found < KEYS as usize, "{found} comparisons to find {} keys", KEYS / 2);
    HASHED.set(0);
    let mut taken = 0;
    while let Some(next) = state.pop(now) {
        state.finish(now, next.slot, Verdict::Done);
        taken += 1;
    }
    assert_eq!(taken, KEYS);
    assert_eq!((HASHED.get(), COMPARED.get(), CLONED.get()), (0, 0, KEYS as usize));
    assert_eq!(state.known(), 0);
}
