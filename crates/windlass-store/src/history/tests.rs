use super::*;

fn history(writes: &[(&str, u64, bool)]) -> History<u64> {
    let mut history = History::default();
    for &(key, revision, put) in writes {
        let key = history.share(key);
        history.apply(&key, Version { revision: Revision(revision), value: put.then_some(revision) });
    }
    history
}

fn keys(listed: &Listed<u64>) -> Vec<(&str, u64)> {
    listed.entries.iter().map(|(key, revision, _)| (&**key, revision.0)).collect()
}

fn list(history: &History<u64>, prefix: &str, after: Option<&str>, limit: Option<usize>, at: u64) -> Listed<u64> {
    let options = ListOptions { prefix: prefix.into(), after: after.map(Into::into), limit, at: None, count: true };
    history.list(&options, Revision(at))
}

#[test]
fn a_list_sees_the_version_of_its_revision() {
    let history = history(&[("/a", 2, true), ("/b", 3, true), ("/a", 4, true), ("/b", 5, false), ("/a", 6, false)]);
    assert_eq!(keys(&list(&history, "/", None, None, 1)), []);
    assert_eq!(keys(&list(&history, "/", None, None, 3)), [("/a", 2), ("/b", 3)]);
    assert_eq!(keys(&list(&history, "/", None, None, 5)), [("/a", 4)]);
    assert_eq!(keys(&list(&history, "/", None, None, 9)), []);
}

#[test]
fn the_index_of_many_writes_is_that_of_one_after_the_other() {
    let writes =
        [("/b", 2, true), ("/a", 3, true), ("/b", 4, false), ("/c", 5, true), ("/b", 6, true), ("/a", 7, true)];
    let of_all = History::of(
        writes
            .iter()
            .map(|&(key, revision, put)| {
                (Arc::from(key), Version { revision: Revision(revision), value: put.then_some(revision) })
            })
            .collect(),
    );
    let one_by_one = history(&writes);
    assert_eq!((of_all.versions(), one_by_one.versions()), (6, 6));
    for at in 1..9 {
        let [all, one] = [&of_all, &one_by_one].map(|history| list(history, "/", None, None, at));
        assert_eq!(keys(&all), keys(&one), "at revision {at}");
    }
}

#[test]
fn a_page_counts_the_remaining_keys_and_starts_after_its_key() {
    let history =
        history(&[("/x/a", 2, true), ("/x/b", 3, true), ("/x/c", 4, true), ("/x/d", 5, false), ("/y", 6, true)]);
    let page = list(&history, "/x/", None, Some(1), 9);
    assert_eq!((keys(&page), page.remaining), (vec![("/x/a", 2)], 2));
    let page = list(&history, "/x/", Some("/x/a"), Some(1), 9);
    assert_eq!((keys(&page), page.remaining), (vec![("/x/b", 3)], 1));
    let page = list(&history, "/x/", Some("/w"), Some(0), 9);
    assert_eq!((keys(&page), page.remaining), (vec![], 3));
    let page = list(&history, "/x/", Some("/z"), None, 9);
    assert_eq!((keys(&page), page.remaining), (vec![], 0));
}

#[test]
fn a_page_without_count_stops_at_its_end() {
    let history = history(&[("/a", 2, true), ("/b", 3, true), ("/c", 4, true)]);
    let page = |limit| {
        let options = ListOptions { prefix: "/".into(), limit: Some(limit), ..ListOptions::default() };
        let listed = history.list(&options, Revision(9));
        (listed.entries.len(), listed.remaining)
    };
    assert_eq!([1, 2, 3, 4].map(page), [(1, 1), (2, 1), (3, 0), (3, 0)]);
}

#[test]
fn removing_versions_keeps_the_state_at_the_revision_and_later() {
    let writes =
        [("/a", 2, true), ("/b", 3, true), ("/a", 4, true), ("/b", 5, false), ("/a", 6, true), ("/b", 7, true)];
    for compacted in 2..=7 {
        let whole = history(&writes);
        let mut history = history(&writes);
        for &(key, revision, _) in writes.iter().take_while(|write| write.1 <= compacted) {
            history.remove_before(key, Revision(revision), |_| ());
        }
        for at in compacted..=8 {
            let (kept, expected) = (list(&history, "", None, None, at), list(&whole, "", None, None, at));
            assert_eq!(keys(&kept), keys(&expected), "compacted {compacted}, at {at}");
        }
    }
}

#[test]
fn every_removed_version_is_reported_once() {
    let mut history = history(&[("/a", 2, true), ("/a", 3, true), ("/a", 4, false), ("/a", 5, true)]);
    let mut removed = Vec::new();
    for revision in 2..=5 {
        history.remove_before("/a", Revision(revision), |version| removed.push(version.revision.0));
    }
    assert_eq!(removed, [2, 3, 4]);
    assert_eq!(history.versions(), 1);
}

#[test]
fn a_deleted_key_leaves_nothing_behind() {
    let mut history = history(&[("/a", 2, true), ("/a", 3, false)]);
    history.remove_before("/a", Revision(2), |_| ());
    history.remove_before("/a", Revision(3), |_| ());
    assert_eq!(history.versions(), 0);
}
