//! Fairness, limits and bookkeeping of queue sets.

use proptest::prelude::*;

use super::*;

fn set(queues: usize, hand_size: usize, queue_length_limit: usize, limit: usize) -> QueueSet {
    QueueSet::new(Duration::ZERO, Some(Queuing { queues, hand_size, queue_length_limit }), limit)
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn without_queues_requests_beyond_the_limit_are_rejected() {
    let mut set = QueueSet::new(Duration::ZERO, None, 2);
    let Start::Run(first) = set.start(at(0), 0, Work::ONE) else { panic!() };
    assert!(matches!(set.start(at(0), 0, Work::ONE), Start::Run(_)));
    assert_eq!(set.start(at(0), 0, Work::ONE), Start::Reject(Rejection::ConcurrencyLimit));
    set.finish(at(1), first);
    assert!(matches!(set.start(at(1), 0, Work::ONE), Start::Run(_)));
    let mut none = QueueSet::new(Duration::ZERO, None, 0);
    assert_eq!(none.start(at(0), 0, Work::ONE), Start::Reject(Rejection::ConcurrencyLimit));
}

#[test]
fn requests_wait_in_order_until_their_queue_is_full() {
    let mut set = set(1, 1, 2, 1);
    let Start::Run(first) = set.start(at(0), 0, Work::ONE) else { panic!() };
    let Start::Wait(second) = set.start(at(0), 0, Work::ONE) else { panic!() };
    let Start::Wait(third) = set.start(at(0), 0, Work::ONE) else { panic!() };
    assert_eq!(set.start(at(0), 0, Work::ONE), Start::Reject(Rejection::QueueFull));
    set.finish(at(5), first);
    assert_eq!(set.take_dispatched(), [second]);
    assert!(!set.cancel(at(5), second), "it executes");
    set.finish(at(6), second);
    assert_eq!(set.take_dispatched(), [third]);
}

#[test]
fn a_cancelled_request_makes_room() {
    let mut set = set(1, 1, 1, 1);
    let Start::Run(first) = set.start(at(0), 0, Work::ONE) else { panic!() };
    let Start::Wait(second) = set.start(at(0), 0, Work::ONE) else { panic!() };
    assert!(set.cancel(at(1), second));
    let Start::Wait(third) = set.start(at(1), 0, Work::ONE) else { panic!() };
    set.finish(at(2), first);
    assert_eq!(set.take_dispatched(), [third]);
}

#[test]
fn a_heavy_flow_does_not_delay_a_light_one() {
    // Hashes 0 and 1 choose different queues.
    let mut set = set(2, 1, 100, 1);
    let Start::Run(mut running) = set.start(at(0), 0, Work::ONE) else { panic!() };
    for _ in 0..50 {
        assert!(matches!(set.start(at(0), 0, Work::ONE), Start::Wait(_)));
    }
    let Start::Wait(light) = set.start(at(1), 1, Work::ONE) else { panic!() };
    let mut turns = 0;
    while running != light {
        turns += 1;
        set.finish(at(1 + 10 * turns), running);
        running = set.take_dispatched()[0];
    }
    assert!(turns <= 2, "the light request ran after {turns} others");
}

#[test]
fn wide_requests_wait_for_seats_and_keep_them_for_a_moment() {
    let mut set = set(1, 1, 10, 3);
    let wide = Work { seats: 1, final_seats: 2, linger: at(5) };
    let Start::Run(first) = set.start(at(0), 0, wide) else { panic!() };
    let Start::Wait(second) = set.start(at(0), 0, wide) else { panic!() };
    let Start::Wait(narrow) = set.start(at(0), 0, Work::ONE) else { panic!("a narrow request must not overtake") };
    assert_eq!(set.finish(at(1), first), Some(at(5)));
    assert_eq!(set.take_dispatched(), Vec::<Id>::new(), "the seats are still occupied");
    set.release(at(6), first);
    assert_eq!(set.take_dispatched(), [second, narrow]);
}

#[test]
fn a_request_that_is_wider_than_the_level_runs_alone() {
    let mut set = set(1, 1, 10, 2);
    let huge = Work { seats: 10, final_seats: 0, linger: Duration::ZERO };
    let Start::Run(first) = set.start(at(0), 0, huge) else { panic!() };
    let Start::Wait(second) = set.start(at(0), 0, huge) else { panic!() };
    set.finish(at(1), first);
    assert_eq!(set.take_dispatched(), [second]);
}

#[test]
fn fewer_queues_drain_and_more_seats_dispatch() {
    let mut set = set(4, 1, 10, 1);
    let Start::Run(first) = set.start(at(0), 3, Work::ONE) else { panic!() };
    let Start::Wait(second) = set.start(at(0), 3, Work::ONE) else { panic!() };
    set.configure(at(1), Some(Queuing { queues: 1, hand_size: 1, queue_length_limit: 10 }), 1);
    assert_eq!(set.queues.len(), 4, "the last queue is in use");
    set.configure(at(1), Some(Queuing { queues: 1, hand_size: 1, queue_length_limit: 10 }), 2);
    assert_eq!(set.take_dispatched(), [second]);
    set.finish(at(2), first);
    set.finish(at(2), second);
    assert_eq!(set.queues.len(), 1);
}

/// A step of a random history.
#[derive(Debug, Clone)]
enum Step {
    Start { hash: u64, seats: usize, linger: u64 },
    Finish(usize),
    Cancel(usize),
    Configure { queues: usize, limit: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u64, 1..4_usize, 0..3_u64).prop_map(|(hash, seats, linger)| Step::Start { hash, seats, linger }),
        3 => (0..100_usize).prop_map(Step::Finish),
        1 => (0..100_usize).prop_map(Step::Cancel),
        1 => (0..5_usize, 1..8_usize).prop_map(|(queues, limit)| Step::Configure { queues, limit }),
    ]
}

proptest! {
    #[test]
    fn every_request_ends_and_nothing_is_left(steps in prop::collection::vec(step(), 0..200)) {
        let mut set = set(3, 2, 5, 4);
        let (mut running, mut waiting, mut lingering): (Vec<Id>, Vec<Id>, Vec<Id>) = Default::default();
        let mut now = 0;
        let collect = |set: &mut QueueSet, waiting: &mut Vec<Id>, running: &mut Vec<Id>| {
            for id in set.take_dispatched() {
                let place = waiting.iter().position(|one| *one == id).expect("only waiting requests are dispatched");
                running.push(waiting.remove(place));
            }
        };
        for step in steps {
            now += 1;
            match step {
                Step::Start { hash, seats, linger } => {
                    match set.start(at(now), hash, Work { seats, final_seats: 0, linger: at(linger) }) {
                        Start::Run(id) => running.push(id),
                        Start::Wait(id) => waiting.push(id),
                        Start::Reject(_) => {}
                    }
                }
                Step::Finish(n) if !running.is_empty() => {
                    let id = running.remove(n % running.len());
                    if set.finish(at(now), id).is_some() {
                        lingering.push(id);
                    }
                }
                Step::Cancel(n) if !waiting.is_empty() => {
                    let id = waiting.remove(n % waiting.len());
                    prop_assert!(set.cancel(at(now), id));
                }
                Step::Configure { queues, limit } => {
                    let queuing = Queuing { queues, hand_size: queues.min(2), queue_length_limit: 5 };
                    set.configure(at(now), (queues > 0).then_some(queuing), limit);
                }
                Step::Finish(_) | Step::Cancel(_) => {}
            }
            collect(&mut set, &mut waiting, &mut running);
            prop_assert_eq!((set.executing, set.waiting), (running.len(), waiting.len()));
            prop_assert!(set.waiting == 0 || set.seats_in_use > 0, "requests wait although all seats are free");
            prop_assert_eq!(set.active_queues, set.queues.iter().filter(|queue| !queue.is_idle()).count());
            prop_assert_eq!(set.queued_seats, set.queues.iter().map(Queue::seats).sum::<usize>());
        }
        while !(running.is_empty() && lingering.is_empty()) {
            now += 1;
            for id in lingering.drain(..) {
                set.release(at(now), id);
            }
            for id in std::mem::take(&mut running) {
                if set.finish(at(now), id).is_some() {
                    lingering.push(id);
                }
            }
            collect(&mut set, &mut waiting, &mut running);
        }
        prop_assert_eq!((set.executing, set.waiting, set.seats_in_use, set.seats_waiting), (0, 0, 0, 0));
        prop_assert!(set.requests.is_empty() && waiting.is_empty());
    }

    #[test]
    fn a_request_that_runs_at_once_leaves_the_state_that_its_queue_would_have(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        // Many seats, so that most requests run at once.
        let (mut set, mut model) = (set(3, 2, 5, 6), set(3, 2, 5, 6));
        let (mut running, mut waiting): (Vec<Id>, Vec<Id>) = Default::default();
        let mut now = 0;
        for step in steps {
            now += 1;
            match step {
                Step::Start { hash, seats, linger } => {
                    let work = Work { seats, final_seats: 0, linger: at(linger) };
                    let start = set.start(at(now), hash, work);
                    model.advance(at(now));
                    let modelled = match model.queuing {
                        Some(queuing) => model.start_in_queue(at(now), queuing, hash, work),
                        None => model.start(at(now), hash, work),
                    };
                    prop_assert_eq!(start, modelled);
                    match start {
                        Start::Run(id) => running.push(id),
                        Start::Wait(id) => waiting.push(id),
                        Start::Reject(_) => {}
                    }
                }
                Step::Finish(n) if !running.is_empty() => {
                    let id = running.remove(n % running.len());
                    for set in [&mut set, &mut model] {
                        if set.finish(at(now), id).is_some() {
                            set.release(at(now), id);
                        }
                    }
                }
                Step::Cancel(n) if !waiting.is_empty() => {
                    let id = waiting.remove(n % waiting.len());
                    prop_assert!(set.cancel(at(now), id) && model.cancel(at(now), id));
                }
                Step::Configure { queues, limit } => {
                    let queuing = Queuing { queues, hand_size: queues.min(2), queue_length_limit: 5 };
                    for set in [&mut set, &mut model] {
                        set.configure(at(now), (queues > 0).then_some(queuing), limit);
                    }
                }
                Step::Finish(_) | Step::Cancel(_) => {}
            }
            let dispatched = set.take_dispatched();
            prop_assert_eq!(&dispatched, &model.take_dispatched());
            waiting.retain(|id| !dispatched.contains(id));
            running.extend(dispatched);
            prop_assert_eq!(format!("{set:?}"), format!("{model:?}"));
        }
    }
}
