//! The queue as workers see it, in paused time.

use std::{
    collections::{HashMap, HashSet},
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Waker},
};

use tokio::task::JoinSet;

use super::*;

fn exact() -> RateLimit {
    RateLimit { jitter: 0.0, overall: None, ..RateLimit::default() }
}

fn queue<T: Clone + Eq + Hash + Send + 'static>() -> Queue<T> {
    Queue::builder("test").rate_limit(exact()).build()
}

/// Polls a worker once.
fn is_pending<T>(next: &mut Pin<Box<impl Future<Output = T>>>) -> bool {
    next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_once() {
    let queue = Queue::new();
    queue.add("a", Priority::NORMAL);
    queue.add("a", Priority::NORMAL);
    assert_eq!(queue.len(), 1);
    queue.next().await.unwrap().done();
    assert!(queue.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_held_is_queued_behind_waiting_keys() {
    let queue = queue();
    queue.add("a", Priority::NORMAL);
    let work = queue.next().await.unwrap();
    queue.add("a", Priority::NORMAL);
    queue.add("b", Priority::NORMAL);
    assert_eq!(*queue.next().await.unwrap().key(), "b");
    assert!(queue.try_next().is_none(), "a is already held");
    work.done();
    assert_eq!(*queue.next().await.unwrap().key(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_backs_off_until_it_succeeds() {
    let queue = queue();
    queue.add("a", Priority::LOW);
    let mut waits = Vec::new();
    for attempt in 0..5 {
        let before = Instant::now();
        let work = queue.next().await.unwrap();
        waits.push(before.elapsed().as_millis());
        assert_eq!((work.attempts(), work.priority()), (attempt, Priority::LOW));
        work.retry();
    }
    assert_eq!(waits, [0, 5, 10, 20, 40]);
    queue.next().await.unwrap().requeue_after(Duration::from_secs(7));
    let before = Instant::now();
    let work = queue.next().await.unwrap();
    assert_eq!((before.elapsed().as_secs(), work.attempts()), (7, 0));
}

#[tokio::test(start_paused = true)]
async fn dropped_work_is_retried() {
    let queue = queue();
    queue.add("a", Priority::NORMAL);
    let worker = queue.clone();
    let task = tokio::spawn(async move {
        let _work = worker.next().await.unwrap();
        panic!("on purpose");
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(queue.next().await.unwrap().attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_makes_a_failing_key_ready_unless_backoffs_are_kept() {
    for (keep_backoff, expected) in [(false, 0), (true, 5)] {
        let queue = Queue::builder("").rate_limit(RateLimit { keep_backoff, ..exact() }).build();
        queue.add("a", Priority::LOW);
        queue.next().await.unwrap().retry();
        queue.add("a", Priority::NORMAL);
        let before = Instant::now();
        let work = queue.next().await.unwrap();
        assert_eq!(before.elapsed().as_millis(), expected, "added while delayed, {keep_backoff}");
        assert_eq!((work.attempts(), work.priority()), (1, Priority::NORMAL));

        queue.add("a", Priority::NORMAL);
        work.retry();
        let before = Instant::now();
        assert_eq!(queue.next().await.unwrap().attempts(), 2);
        assert_eq!(before.elapsed().as_millis(), expected * 2, "added while held, {keep_backoff}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_is_woken_by_the_earliest_deadline() {
    let queue = queue();
    let worker = queue.clone();
    let started = Instant::now();
    let task = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(work) = worker.next().await {
            seen.push((*work.key(), started.elapsed().as_secs()));
            work.done();
        }
        seen
    });
    tokio::task::yield_now().await;
    queue.add_after("late", Duration::from_secs(60), Priority::NORMAL);
    tokio::task::yield_now().await;
    queue.add_after("soon", Duration::from_secs(5), Priority::NORMAL);
    queue.add_after("moved", Duration::from_secs(50), Priority::NORMAL);
    queue.add_after("moved", Duration::from_secs(10), Priority::NORMAL);
    queue.add_after("moved", Duration::from_secs(20), Priority::NORMAL);
    tokio::time::sleep(Duration::from_secs(61)).await;
    queue.drain();
    assert_eq!(task.await.unwrap(), [("soon", 5), ("moved", 10), ("late", 60)]);
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_kept_when_its_keeper_is_cancelled() {
    let queue = queue();
    let mut keeper = Box::pin(queue.next());
    assert!(is_pending(&mut keeper));
    let mut other = Box::pin(queue.next());
    assert!(is_pending(&mut other));
    queue.add_after("a", Duration::from_secs(3), Priority::NORMAL);
    assert!(is_pending(&mut keeper));
    drop(keeper);
    let before = Instant::now();
    assert_eq!(*other.await.unwrap().key(), "a");
    assert_eq!(before.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn workers_that_are_woken_spuriously_wait_again() {
    let queue = queue();
    queue.add_after("late", Duration::from_secs(1), Priority::NORMAL);
    let (mut first, mut second) = (Box::pin(queue.next()), Box::pin(queue.next()));
    assert!(is_pending(&mut first) && is_pending(&mut second));
    // Both are notified before either checks. Polling must return, although one keeps the timer for the other.
    queue.shared.wake.notify_one();
    queue.shared.wake.notify_one();
    assert!(is_pending(&mut first) && is_pending(&mut second));
    assert_eq!(first.await.map(|work| *work.key()), Some("late"));
}

#[tokio::test(start_paused = true)]
async fn a_wakeup_is_passed_on_when_its_worker_is_cancelled() {
    let queue = queue();
    let mut first = Box::pin(queue.next());
    let mut second = Box::pin(queue.next());
    assert!(is_pending(&mut first));
    assert!(is_pending(&mut second));
    queue.add("a", Priority::NORMAL);
    drop(first);
    let work = tokio::time::timeout(Duration::from_secs(1), second).await.expect("the second must be woken").unwrap();
    assert_eq!(*work.key(), "a");
}

#[tokio::test(start_paused = true)]
async fn draining_hands_out_keys_that_are_ready_or_were_added_while_held() {
    let queue = queue();
    queue.add("held", Priority::NORMAL);
    let held = queue.next().await.unwrap();
    queue.add("held", Priority::NORMAL);
    queue.add("ready", Priority::NORMAL);
    queue.add_after("delayed", Duration::from_secs(1), Priority::NORMAL);
    queue.drain();
    queue.add("refused", Priority::NORMAL);

    let ready = queue.next().await.unwrap();
    assert_eq!(*ready.key(), "ready");
    let mut last = Box::pin(queue.next());
    assert!(is_pending(&mut last), "a held key is still tracked");
    held.retry();
    let last = last.await.unwrap();
    assert_eq!(*last.key(), "held");
    assert!(queue.next().await.is_none());
    last.requeue_after(Duration::ZERO);
    ready.retry();
    assert!(queue.next().await.is_none());
    assert_eq!((queue.len(), queue.delayed(), queue.held()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn closing_ends_all_workers_and_drops_waiting_keys() {
    let queue = queue();
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let queue = queue.clone();
        workers.spawn(async move { queue.next().await.is_none() });
    }
    tokio::task::yield_now().await;
    queue.close();
    assert!(workers.join_all().await.into_iter().all(|ended| ended));
    queue.add("a", Priority::NORMAL);
    assert!(queue.is_empty());

    let queue = self::queue();
    queue.add("a", Priority::NORMAL);
    queue.add("b", Priority::NORMAL);
    let work = queue.next().await.unwrap();
    queue.add("a", Priority::NORMAL);
    queue.close();
    assert!(queue.next().await.is_none());
    work.done();
    assert!(queue.next().await.is_none());
}

/// Every key fails once in three times; sixteen workers; no key is ever with two of them and none is lost.
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_keys_with_failures_all_succeed() {
    const KEYS: usize = 100_000;
    let queue: Queue<usize> = Queue::builder("test").seed(1).build();
    let held: Arc<Mutex<HashSet<usize>>> = Arc::default();
    let left = Arc::new(AtomicUsize::new(KEYS));
    let tries: Arc<Mutex<HashMap<usize, u32>>> = Arc::default();
    let mut workers = JoinSet::new();
    for _ in 0..16 {
        let (queue, held, left, tries) = (queue.clone(), held.clone(), left.clone(), tries.clone());
        workers.spawn(async move {
            while let Some(work) = queue.next().await {
                let key = *work.key();
                assert!(held.lock().insert(key), "two workers have {key}");
                tokio::task::yield_now().await;
                let tried = *tries.lock().entry(key).and_modify(|tried| *tried += 1).or_insert(1);
                assert_eq!(work.attempts(), tried - 1);
                assert!(held.lock().remove(&key));
                if tried as usize <= key % 3 {
                    work.retry();
                } else {
                    work.done();
                    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        queue.drain();
                    }
                }
            }
        });
    }
    let started = Instant::now();
    for key in 0..KEYS {
        queue.add(key, Priority::LOW);
    }
    workers.join_all().await;
    assert_eq!(left.load(Ordering::Relaxed), 0);
    // 100,000 retries at 100 per second after a burst of 1000.
    let seconds = started.elapsed().as_secs();
    assert!((980..=1000).contains(&seconds), "{seconds}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_lose_no_wakeup() {
    const KEYS: usize = 20_000;
    let queue: Queue<usize> = Queue::builder("test").rate_limit(exact()).build();
    let left = Arc::new(AtomicUsize::new(KEYS));
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (queue, left) = (queue.clone(), left.clone());
        workers.spawn(async move {
            while let Some(work) = queue.next().await {
                match (work.attempts(), work.key() % 7) {
                    (0, 0) => work.retry(),
                    _ => {
                        work.done();
                        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                            queue.drain();
                        }
                    }
                }
            }
        });
    }
    let adder = queue.clone();
    let adding = tokio::spawn(async move {
        for key in 0..KEYS {
            match key % 5 {
                0 => adder.add_after(key, Duration::from_millis(1), Priority::NORMAL),
                _ => adder.add(key, Priority::NORMAL),
            }
            // Lets workers fall asleep every now and then.
            if key % 97 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    adding.await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), workers.join_all()).await.expect("all keys must be worked on");
}

#[tokio::test(start_paused = true)]
async fn metrics_have_client_gos_names() {
    let metrics = crate::metrics::Metrics::new();
    let queues = QueueMetrics::register(&metrics);
    let queue: Queue<u32> = Queue::builder("foo").rate_limit(exact()).metrics(&queues).build();
    queue.add(1, Priority::NORMAL);
    queue.add(2, Priority::NORMAL);
    queue.add(3, Priority::LOW);
    tokio::time::advance(Duration::from_millis(50)).await;
    let (first, second) = (queue.next().await.unwrap(), queue.next().await.unwrap());
    tokio::time::advance(Duration::from_secs(2)).await;
    first.retry();
    tokio::time::advance(Duration::from_millis(1)).await;

    let text = metrics.encode();
    let lines: Vec<_> = text.lines().filter(|line| !line.contains("_bucket")).collect();
    expect_test::expect![[r##"
        # HELP workqueue_adds Keys that became ready
        # TYPE workqueue_adds counter
        workqueue_adds_total{name="foo",controller="foo"} 3
        # HELP workqueue_retries Keys that were delayed
        # TYPE workqueue_retries counter
        workqueue_retries_total{name="foo",controller="foo"} 1
        # HELP workqueue_unfinished_work_seconds Total processing time of the keys that are being processed, in seconds
        # TYPE workqueue_unfinished_work_seconds gauge
        workqueue_unfinished_work_seconds{name="foo",controller="foo"} 2.001
        # HELP workqueue_longest_running_processor_seconds Longest processing time of a key that is being processed, in seconds
        # TYPE workqueue_longest_running_processor_seconds gauge
        workqueue_longest_running_processor_seconds{name="foo",controller="foo"} 2.001
        # HELP workqueue_queue_duration_seconds Time that keys waited for a worker after becoming ready, in seconds
        # TYPE workqueue_queue_duration_seconds histogram
        workqueue_queue_duration_seconds_sum{name="foo",controller="foo"} 0.1
        workqueue_queue_duration_seconds_count{name="foo",controller="foo"} 2
        # HELP workqueue_work_duration_seconds Time that workers took to process keys, in seconds
        # TYPE workqueue_work_duration_seconds histogram
        workqueue_work_duration_seconds_sum{name="foo",controller="foo"} 2.0
        workqueue_work_duration_seconds_count{name="foo",controller="foo"} 1
        # HELP workqueue_depth Number of ready keys
        # TYPE workqueue_depth gauge
        workqueue_depth{name="foo",controller="foo",priority="-100"} 1
        workqueue_depth{name="foo",controller="foo",priority="0"} 0
        # EOF"##]]
    .assert_eq(&lines.join("\n"));
    assert!(
        text.contains(r#"workqueue_queue_duration_seconds_bucket{le="0.1",name="foo",controller="foo"} 2"#),
        "{text}"
    );
    drop((second, queue));
    assert!(!metrics.encode().contains("foo"));
}
