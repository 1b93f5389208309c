use futures_util::FutureExt as _;

use super::*;

#[test]
fn a_source_that_another_call_starts_is_waited_for() {
    let set = WatchSet::new();
    set.shared.lock().entries.insert("a".to_owned(), Entry::Starting(1));
    let mut synced = Box::pin(set.synced());
    assert!((&mut synced).now_or_never().is_none());
    set.put("a", 1, Some(ActiveSource::empty()));
    assert_eq!(synced.now_or_never(), Some(Ok(())));
    assert_eq!(set.names(), ["a"]);
    // A start that failed leaves nothing behind.
    set.shared.lock().entries.insert("b".to_owned(), Entry::Starting(2));
    drop(Starting { set: &set, name: "b".to_owned(), number: 2, placed: false });
    assert_eq!((set.names(), set.synced().now_or_never()), (vec!["a".to_owned()], Some(Ok(()))));
}

#[tokio::test]
async fn a_source_that_was_removed_while_it_was_started_does_not_return() {
    let set = WatchSet::new();
    let place = |number| set.shared.lock().entries.insert("a".to_owned(), Entry::Starting(number));
    let active = || {
        let mut active = ActiveSource::empty();
        active._tasks.spawn(std::future::pending());
        active
    };
    let tasks = || match set.shared.lock().entries.get("a") {
        Some(Entry::Active(active)) => Some(active._tasks.len()),
        _ => None,
    };
    place(1);
    assert!(set.remove("a"));
    set.put("a", 1, Some(active()));
    assert_eq!(set.names(), [""; 0]);
    // Another source has the name now: neither the end nor the failure of the first start affects it.
    place(1);
    assert!(set.remove("a"));
    place(2);
    set.put("a", 1, Some(active()));
    set.put("a", 1, None);
    assert_eq!((set.names(), tasks()), (vec!["a".to_owned()], None));
    set.put("a", 2, Some(ActiveSource::empty()));
    assert_eq!(tasks(), Some(0));
    set.put("a", 1, Some(active()));
    assert_eq!(tasks(), Some(0), "the second source stays");
}
