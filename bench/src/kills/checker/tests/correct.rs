//! Histories of a correct server, above all with unknown outcomes.

use super::*;

#[test]
fn a_history_without_surprises_passes() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..30, 7);
    let other = story.create(B, 22..28, 6);
    story.get(second, 40..50);
    story.list(ListKind::Consistent, 40..50, 7, &[second, other]);
    let third = story.patch(second, 60..70, 8);
    story.delete(third, 80..90);
    story.missing(A, 95..99);
    let again = story.create(A, 100..110, 10);
    story.list(ListKind::Exact(7), 120..130, 7, &[second, other]);
    story.watch(
        4,
        &[
            (EventKind::Added, first),
            (EventKind::Added, other),
            (EventKind::Modified, second),
            (EventKind::Modified, third),
            deletion(third, 9),
            (EventKind::Added, again),
        ],
    );
    story.passes();
}

#[test]
fn concurrent_operations_may_be_seen_in_any_order() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..100, 6);
    // Both states are possible while the update is in progress, as long as reads do not go back.
    story.get(first, 30..40);
    story.get(second, 50..60);
    story.get(second, 25..60);
    story.get(first, 25..45);
    story.operation(Call::Put(A, 5), 30..70, Outcome::Conflict);
    story.operation(Call::Create(A), 30..70, Outcome::Exists);
    story.passes();
}

#[test]
fn a_write_of_unknown_outcome_may_take_effect_much_later_or_never() {
    let mut never = Story::default();
    let first = never.create(A, 0..10, 5);
    never.unknown(Call::Put(A, 5), 20);
    never.unknown(Call::Delete(A, None), 20);
    never.get(first, 1000..1010);
    never.list(ListKind::Consistent, 1000..1010, 9, &[first]);
    never.passes();

    let mut later = Story::default();
    let first = later.create(A, 0..10, 5);
    let second = later.updated(first, 6);
    later.unknown(Call::Put(A, 5), 20);
    later.get(first, 1000..1010);
    later.get(second, 2000..2010);
    later.passes();
    assert_eq!(check(&later.0).took_effect, 1);
}

#[test]
fn an_unobserved_write_explains_what_follows_from_it() {
    // The deletion is never seen, the object is gone, and another takes its name.
    let mut deleted = Story::default();
    let first = deleted.create(A, 0..10, 5);
    deleted.unknown(Call::Delete(A, None), 20);
    deleted.missing(A, 30..40);
    deleted.list(ListKind::Consistent, 50..60, 6, &[]);
    let second = deleted.create(A, 70..80, 7);
    deleted.operation(Call::Put(A, 5), 81..82, Outcome::Conflict);
    deleted.watch(4, &[(EventKind::Added, first), deletion(first, 6), (EventKind::Added, second)]);
    deleted.passes();

    // The creation is never seen, only a patch of the object.
    let mut created = Story::default();
    let hidden = created.created(A, 5);
    created.unknown(Call::Create(A), 0);
    created.operation(Call::Create(A), 10..20, Outcome::Exists);
    let patched = created.patch(hidden, 30..40, 6);
    created.list(ListKind::Cached, 50..60, 6, &[patched]);
    created.delete(patched, 70..80);
    created.passes();

    // An update between two patches is never seen by itself.
    let mut updated = Story::default();
    let first = updated.create(A, 0..10, 5);
    let hidden = updated.updated(first, 6);
    updated.unknown(Call::Put(A, 5), 20);
    let patched = updated.patch(hidden, 30..40, 7);
    updated.operation(Call::Delete(A, Some(5)), 50..60, Outcome::Conflict);
    updated.get(patched, 70..80);
    updated.passes();
}

#[test]
fn deletions_without_a_known_revision_fit_where_the_object_ended() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    story.delete(first, 20..30);
    story.missing(A, 25..26);
    story.missing(A, 35..40);
    // The list may be older than the deletion as long as both are in progress.
    story.list(ListKind::Consistent, 22..28, 5, &[first]);
    let second = story.create(A, 50..60, 7);
    story.operation(Call::Delete(A, Some(7)), 70..80, Outcome::Deleted(second.1.uid));
    story.list(ListKind::Consistent, 90..95, 8, &[]);
    story.passes();
}

#[test]
fn lists_from_the_cache_may_be_old_and_watches_may_end_anywhere() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..30, 6);
    let third = story.put(second, 31..32, 7);
    story.list(ListKind::Cached, 40..50, 5, &[first]);
    story.list(ListKind::Cached, 60..70, 6, &[second]);
    story.watch(4, &[(EventKind::Added, first)]);
    story.watch(5, &[(EventKind::Modified, second)]);
    story.watch(6, &[]);
    story.watch(6, &[(EventKind::Modified, third)]).complete_to = Some(7);
    story.passes();
}

#[test]
fn caches_of_several_servers_may_lag_but_none_goes_back() {
    let mut story = Story::default();
    let first = story.create(A, 0..10, 5);
    let second = story.put(first, 20..30, 6);
    story.list(ListKind::Cached, 40..50, 6, &[second]);
    story.list(ListKind::Cached, 60..70, 5, &[first]);
    assert_eq!(story.rules(), [Rule::ListWentBack]);
    story.0.operations.last_mut().unwrap().server = 1;
    story.passes();
}
