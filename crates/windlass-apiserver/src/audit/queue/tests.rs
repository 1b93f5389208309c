use futures_util::FutureExt as _;

use super::*;

const TEN: Bytes = Bytes::from_static(b"0123456789");

fn lost(counters: &Counters) -> String {
    let mut out = String::new();
    counters.render(&mut out);
    let line = out.lines().find(|line| line.starts_with("apiserver_audit_error_total{plugin=\"buffered\"}")).unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

/// Returns a queue for some bytes and events, and the number of events that it accepts.
fn accepted(max_bytes: usize, max_events: usize) -> (usize, String) {
    let counters = Arc::new(Counters::default());
    let (queue, mut receiver) = Queue::new(Mode::Batch, max_bytes, max_events, counters.clone());
    for _ in 0..5 {
        assert_eq!(queue.submit(TEN, OnFull::Wait).written().now_or_never(), Some(true), "nobody waits");
    }
    let mut count = 0;
    while receiver.try_recv().is_ok() {
        count += 1;
    }
    (count, lost(&counters))
}

#[test]
fn events_beyond_the_bytes_or_the_number_are_dropped_and_counted() {
    assert_eq!(accepted(29, 100), (2, "3".to_owned()));
    assert_eq!(accepted(30, 100), (3, "2".to_owned()));
    assert_eq!(accepted(31, 100), (3, "2".to_owned()));
    assert_eq!(accepted(1000, 4), (4, "1".to_owned()));
    assert_eq!(accepted(1000, 5), (5, "0".to_owned()));
    assert_eq!(accepted(5, 100), (1, "4".to_owned()), "an event that is too large has the queue to itself");
}

#[test]
fn room_is_free_again_when_an_event_is_written() {
    let (queue, mut receiver) = Queue::new(Mode::Batch, 10, 100, Arc::default());
    let _ = queue.submit(TEN, OnFull::Wait);
    let Some(Item::Event(event)) = receiver.try_recv().ok() else { panic!("no event") };
    let _ = queue.submit(TEN, OnFull::Wait);
    assert!(receiver.try_recv().is_err(), "the first event is being written");
    event.finish(true);
    let _ = queue.submit(TEN, OnFull::Wait);
    assert!(receiver.try_recv().is_ok());
}

#[tokio::test]
async fn in_a_blocking_mode_a_request_waits_for_room_and_until_its_event_is_written() {
    for (mode, written, outcome) in [
        (Mode::Blocking, true, true),
        (Mode::Blocking, false, true),
        (Mode::BlockingStrict, true, true),
        (Mode::BlockingStrict, false, false),
    ] {
        let counters = Arc::new(Counters::default());
        let (queue, mut receiver) = Queue::new(mode, 10, 100, counters.clone());
        let first = queue.submit(TEN, OnFull::Wait);
        let second = tokio::spawn(queue.submit(TEN, OnFull::Wait).written());
        let _ = queue.submit(TEN, OnFull::Drop);
        assert_eq!(lost(&counters), "1", "an event that cannot wait is dropped");
        for waiting in [tokio::spawn(first.written()), second] {
            let Some(Item::Event(event)) = receiver.recv().await else { panic!("no event") };
            assert!(!waiting.is_finished());
            event.finish(written);
            assert_eq!(waiting.await.unwrap(), outcome, "{mode:?} {written}");
        }
    }
}

#[tokio::test]
async fn a_request_that_ends_while_it_waits_for_room_loses_its_event() {
    let counters = Arc::new(Counters::default());
    let (queue, mut receiver) = Queue::new(Mode::Blocking, 10, 100, counters.clone());
    let _ = queue.submit(TEN, OnFull::Drop);
    assert_eq!(queue.submit(TEN, OnFull::Wait).written().now_or_never(), None);
    assert_eq!(lost(&counters), "1");
    assert!(receiver.try_recv().is_ok() && receiver.try_recv().is_err());
}
