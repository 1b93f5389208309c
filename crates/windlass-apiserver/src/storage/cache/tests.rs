//! Tests of the log.

use super::*;

fn write(name: &str, revision: u64, size: usize) -> Event {
    let value = format!(r#"{{"metadata":{{"name":"{name}"}},"data":"{}"}}"#, "x".repeat(size));
    Event { key: format!("/core/things/{name}").into(), revision: Revision(revision), value: Some(value.into()) }
}

fn revisions(events: Option<Vec<Arc<CacheEvent>>>) -> Option<Vec<u64>> {
    events.map(|events| events.iter().map(|event| event.object.revision.0).collect())
}

#[test]
fn large_events_stay_in_the_log() {
    let cache = ResourceCache::new("/core/things/", Revision(1));
    cache.apply(&[write("a", 2, 2 * MAX_BYTES)]);
    assert_eq!(revisions(cache.events_after(Revision(1), 10)), Some(vec![2]));
    for revision in 3..=20 {
        cache.apply(&[write("b", revision, 1 << 20)]);
    }
    let oldest_kept = 21 - MIN_EVENTS as u64;
    assert_eq!(revisions(cache.events_after(Revision(oldest_kept - 2), 10)), None);
    assert_eq!(revisions(cache.events_after(Revision(oldest_kept - 1), 10)), Some(vec![oldest_kept]));
}

#[test]
fn a_batch_has_all_events_of_its_last_revision() {
    let cache = ResourceCache::new("/core/things/", Revision(1));
    cache.apply(&[
        write("a", 2, 10),
        write("b", 3, BATCH_BYTES),
        write("c", 3, 10),
        write("d", 3, 10),
        write("e", 4, 10),
    ]);
    assert_eq!(revisions(cache.events_after(Revision(1), 10)), Some(vec![2, 3, 3, 3]));
    assert_eq!(revisions(cache.events_after(Revision(1), 1)), Some(vec![2]));
    assert_eq!(revisions(cache.events_after(Revision(2), 2)), Some(vec![3, 3, 3]));
}

#[test]
fn a_batch_ends_after_some_bytes() {
    let cache = ResourceCache::new("/core/things/", Revision(1));
    cache.apply(&[write("a", 2, 10), write("b", 3, BATCH_BYTES / 2), write("c", 4, BATCH_BYTES), write("d", 5, 10)]);
    assert_eq!(revisions(cache.events_after(Revision(1), 10)), Some(vec![2, 3, 4]));
    assert_eq!(revisions(cache.events_after(Revision(4), 10)), Some(vec![5]));
    assert_eq!(revisions(cache.events_after(Revision(1), 1)), Some(vec![2]));
}
