//! Histories of servers with a bug each.

use super::*;

#[test]
fn an_acknowledgement_before_the_fsync_is_found_by_the_next_read() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..30, 6);
    story.get(second, 31..32);
    story.0.faults.push(Mark { at: 35, what: "the server was killed".to_owned() });
    story.list(ListKind::Consistent, 40..50, 5, &[first]);
    assert_eq!(story.rules(), [Rule::StaleRead]);
    assert_eq!(check(&story.0).lost.into_iter().collect::<Vec<_>>(), [OpId(2)]);

    let mut absent = Story::default();
    absent.create(A, 0..10, 5);
    absent.missing(A, 40..50);
    absent.list(ListKind::Consistent, 60..70, 5, &[]);
    assert_eq!(absent.rules(), [Rule::StaleRead, Rule::ListNotAState]);
    assert_eq!(check(&absent.0).lost.len(), 1);
}

#[test]
fn a_revision_that_is_used_again_after_a_crash_shows_that_a_write_was_lost() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..30, 6);
    story.0.faults.push(Mark { at: 35, what: "the server was killed".to_owned() });
    let other = story.create(B, 40..50, 6);
    story.get(other, 60..70);
    story.watch(5, &[(EventKind::Added, other)]);
    let reused = check(&story.0).violations.into_iter().filter(|it| it.rule == Rule::RevisionReused).count();
    assert_eq!(reused, 1, "it is reported once");
    assert!(story.rules().contains(&Rule::RevisionReused), "{:?}", story.rules());
    assert_eq!(check(&story.0).lost.into_iter().collect::<Vec<_>>(), [second.1.content.last]);
}

#[test]
fn a_skipped_event_is_found() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..30, 6);
    let third = story.put(second, 40..50, 7);
    story.watch(4, &[(EventKind::Added, first), (EventKind::Modified, third)]);
    assert_eq!(story.rules(), [Rule::WatchLostEvent]);
    let text = check(&story.0).violations[0].to_string();
    assert!(text.contains("revision 6, 1 missing") && text.contains("update key-0 at revision 5"), "{text}");
}

#[test]
fn an_event_that_is_skipped_at_the_end_or_where_a_watch_resumes_is_found() {
    let mut end = Story::default();
    let first = end.create(A, 0..10, 5);
    end.put(first, 20..30, 6);
    end.watch(4, &[(EventKind::Added, first)]).complete_to = Some(6);
    assert_eq!(end.rules(), [Rule::WatchLostEvent]);

    let mut resumed = Story::default();
    let first = resumed.create(A, 0..10, 5);
    let second = resumed.put(first, 20..30, 6);
    let third = resumed.put(second, 40..50, 7);
    resumed.watch(4, &[(EventKind::Added, first)]);
    resumed.watch(5, &[(EventKind::Modified, third)]);
    assert_eq!(resumed.rules(), [Rule::WatchLostEvent]);
}

#[test]
fn a_skipped_deletion_is_found_although_its_revision_is_unknown() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    story.delete(first, 20..30);
    let second = story.create(A, 40..50, 7);
    story.watch(4, &[(EventKind::Added, first), (EventKind::Added, second)]);
    assert_eq!(story.rules(), [Rule::WatchLostEvent]);

    let mut end = Story::default();
    let first = end.create(A, 0..10, 5);
    end.delete(first, 20..30);
    let mark = end.create(B, 40..50, 7);
    end.watch(4, &[(EventKind::Added, first), (EventKind::Added, mark)]).complete_to = Some(7);
    assert_eq!(end.rules(), [Rule::WatchLostEvent]);
}

#[test]
fn repeated_and_reordered_events_and_wrong_types_are_found() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..30, 6);
    let other = story.create(B, 40..50, 7);
    let events = [(EventKind::Added, first), (EventKind::Modified, second), (EventKind::Added, other)];
    story.watch(4, &[events[0], events[1], events[1], events[2]]);
    assert_eq!(story.rules(), [Rule::WatchOrder]);
    story.0.watches.clear();
    story.watch(4, &[events[0], events[2], events[1]]);
    assert_eq!(story.rules(), [Rule::WatchOrder]);
    story.0.watches.clear();
    story.watch(5, &[(EventKind::Added, second), events[2]]);
    assert_eq!(story.rules(), [Rule::WatchEventType]);
}

#[test]
fn a_stale_list_is_found_and_nothing_is_lost_by_it() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..30, 6);
    story.list(ListKind::Consistent, 40..50, 5, &[first]);
    story.list(ListKind::Consistent, 60..70, 6, &[second]);
    // It is reported once, and does not make anything else suspicious.
    story.delete(second, 80..90);
    story.missing(A, 100..110);
    let verdict = check(&story.0);
    assert_eq!(verdict.violations.len(), 1);
    assert_eq!(verdict.violations[0].rule, Rule::StaleRead);
    assert!(verdict.lost.is_empty());
}

#[test]
fn a_list_that_mixes_states_is_found() {
    for kind in [ListKind::Consistent, ListKind::Cached, ListKind::Exact(8)] {
        let mut story = Story::default();
        let first = story.create(A, 0..10, 5);
        let other = story.create(B, 11..12, 6);
        let second = story.put(first, 20..30, 7);
        let third = story.put(second, 20..30, 9);
        for wrong in [&[first, other][..], &[second], &[third, other], &[second, other, other]] {
            let mut story = Story(story.0.clone());
            story.list(kind, 25..50, 8, wrong);
            assert_eq!(story.rules(), [Rule::ListNotAState], "{kind:?}");
        }
        story.list(kind, 25..50, 8, &[second, other]);
        story.passes();
    }
}

#[test]
fn a_stale_get_is_found() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..100, 6);
    story.get(second, 30..40);
    // The update is still in progress, but another client has seen it.
    story.get(first, 50..60);
    assert_eq!(story.rules(), [Rule::StaleRead]);

    let mut deleted = Story::default();
    let first = deleted.create(A, 0..10, 5);
    deleted.delete(first, 20..30);
    deleted.get(first, 40..50);
    assert_eq!(deleted.rules(), [Rule::StaleRead]);
}

#[test]
fn a_lost_update_is_found() {
    let mut overwritten = Story::default();
    let first = overwritten.create(A, 0..10, 5);
    overwritten.put(first, 20..30, 6);
    overwritten.put(first, 25..35, 7);
    assert_eq!(overwritten.rules(), [Rule::LostUpdate]);

    let mut stale_base = Story::default();
    let first = stale_base.create(A, 0..10, 5);
    stale_base.put(first, 20..30, 6);
    stale_base.patch(first, 25..35, 7);
    assert_eq!(stale_base.rules(), [Rule::LostUpdate]);

    let mut deleted = Story::default();
    let first = deleted.create(A, 0..10, 5);
    deleted.put(first, 20..30, 6);
    deleted.operation(Call::Delete(A, Some(5)), 40..50, Outcome::Deleted(first.1.uid));
    assert_eq!(deleted.rules(), [Rule::LostUpdate]);
}

#[test]
fn revisions_that_go_back_are_found() {
    let mut story = Story::default();
    story.create(A, 0..10, 5);
    story.create(B, 20..30, 4);
    assert_eq!(story.rules(), [Rule::RevisionOrder]);
    let mut concurrent = Story::default();
    concurrent.create(A, 0..10, 5);
    concurrent.create(B, 5..30, 4);
    concurrent.passes();
}

#[test]
fn changes_that_no_request_explains_are_found() {
    let mut vanished = Story::default();
    let first = vanished.create(A, 0..10, 5);
    let second = vanished.create(A, 20..30, 7);
    assert_eq!(vanished.rules(), [Rule::UnexplainedChange]);
    vanished.watch(4, &[(EventKind::Added, first), deletion(first, 6), (EventKind::Added, second)]);
    assert_eq!(vanished.rules(), [Rule::UnexplainedChange]);

    let mut phantom = Story::default();
    let rejected = phantom.created(A, 5);
    phantom.operation(Call::Create(A), 0..10, Outcome::Rejected(429));
    phantom.get(rejected, 20..30);
    assert_eq!(phantom.rules(), [Rule::Phantom]);

    let mut twice = Story::default();
    let first = twice.create(A, 0..10, 5);
    twice.get(Seen(A, Version { revision: 6, ..first.1 }), 20..30);
    assert!(twice.rules().contains(&Rule::WriteTwice), "{:?}", twice.rules());
}

#[test]
fn rejections_without_a_cause_are_found() {
    let mut conflict = Story::default();
    let first = conflict.create(A, 0..10, 5);
    conflict.operation(Call::Put(A, 5), 20..30, Outcome::Conflict);
    conflict.put(first, 40..50, 6);
    assert_eq!(conflict.rules(), [Rule::UnexplainedRejection]);

    let mut exists = Story::default();
    exists.operation(Call::Create(A), 0..10, Outcome::Exists);
    exists.create(A, 20..30, 5);
    assert_eq!(exists.rules(), [Rule::UnexplainedRejection]);

    let mut absent = Story::default();
    absent.create(A, 0..10, 5);
    absent.operation(Call::Patch(A), 20..30, Outcome::NotFound);
    assert_eq!(absent.rules(), [Rule::StaleRead]);
}
