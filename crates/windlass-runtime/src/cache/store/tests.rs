//! Changes and writes of this process go in, events come out.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;

use super::*;
use crate::watch::{Decoder, Parse};

mod model;
mod packing;

/// A state of an object: name, uid and revision.
pub(super) fn state(name: &str, uid: &str, revision: u64) -> Arc<ConfigMap> {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        uid: Some(uid.into()),
        resource_version: Some(revision.to_string()),
        ..ObjectMeta::default()
    };
    Arc::new(ConfigMap { metadata, ..ConfigMap::default() })
}

fn show(object: &ConfigMap) -> String {
    let meta = &object.metadata;
    format!(
        "{}:{}@{}",
        meta.name.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default(),
        meta.resource_version.as_deref().unwrap_or_default()
    )
}

pub(super) fn show_event(event: &Event<ConfigMap>) -> String {
    match event {
        Event::Added { object, initial: true } => format!("initial {}", show(object)),
        Event::Added { object, initial: false } => format!("added {}", show(object)),
        Event::Updated { old, new } => format!("updated {} -> {}", show(old), show(new)),
        Event::Deleted { object } => format!("deleted {}", show(object)),
    }
}

/// An input of a store.
enum Step {
    List(u64, Vec<Arc<ConfigMap>>),
    Apply(Arc<ConfigMap>),
    Delete(Arc<ConfigMap>),
    Gone(ObjectKey, u64),
    Bookmark(u64),
    Absent,
    Wrote(Arc<ConfigMap>, ScopeMatch),
    Deleted(&'static str, &'static str),
}

use Step::{Absent, Apply, Bookmark, Delete, Deleted, Gone, List, Wrote};

fn run(store: &mut Store<ConfigMap>, step: Step) -> Vec<String> {
    let mut events = Vec::new();
    let emit = &mut |event: Event<Cell<ConfigMap>>| events.push(show_event(&event.open()));
    match step {
        List(revision, objects) => {
            store.apply(Change::Replace { objects, unreadable: Vec::new(), revision }.map(Cell::new), emit)
        }
        Apply(object) => store.apply(Change::Apply(object), emit),
        Delete(object) => store.apply(Change::Delete(object), emit),
        Gone(key, revision) => store.apply(Change::Gone { key, revision }, emit),
        Bookmark(revision) => store.apply(Change::Bookmark(revision), emit),
        Absent => store.apply(Change::Absent, emit),
        Wrote(object, fit) => store.wrote(object, fit, false, emit),
        Deleted(name, uid) => store.deleted(&ObjectKey::namespaced("default", name), uid, emit),
    }
    events.sort_by_key(|event| event.starts_with("added"));
    events
}

/// A store that packs nothing.
fn parsed() -> Store<ConfigMap> {
    Store::new(Packer::new(None, Decoder::unchanged(Parse::typed())))
}

/// Runs steps, each with its expected events.
fn check<const N: usize>(steps: [(Step, &[&str]); N]) -> Store<ConfigMap> {
    let mut store = parsed();
    for (number, (step, expected)) in steps.into_iter().enumerate() {
        let mut events = run(&mut store, step);
        if number == 0 {
            events.sort();
        }
        assert_eq!(events, expected, "step {number}");
    }
    store
}

fn within(name: &str, uid: &str, revision: u64) -> Step {
    Wrote(state(name, uid, revision), ScopeMatch::Within)
}

#[test]
fn the_first_list_is_initial_and_later_changes_are_not() {
    let store = check([
        (List(5, vec![state("a", "1", 3), state("b", "2", 4)]), &["initial a:1@3", "initial b:2@4"]),
        (Apply(state("c", "3", 6)), &["added c:3@6"]),
        (Apply(state("a", "1", 7)), &["updated a:1@3 -> a:1@7"]),
        (Delete(state("b", "2", 8)), &["deleted b:2@8"]),
        (Bookmark(20), &[]),
    ]);
    assert_eq!((store.len(), store.revision(), store.is_synced()), (2, 20, true));
}

#[test]
fn a_relist_is_a_diff_with_deletes_that_keeps_unchanged_objects() {
    let kept = state("a", "1", 3);
    let store = check([
        (
            List(5, vec![kept.clone(), state("b", "2", 4), state("c", "3", 5)]),
            &["initial a:1@3", "initial b:2@4", "initial c:3@5"],
        ),
        (
            List(9, vec![state("a", "1", 3), state("b", "2", 8), state("d", "4", 7)]),
            &["updated b:2@4 -> b:2@8", "deleted c:3@5", "added d:4@7"],
        ),
    ]);
    assert!(Arc::ptr_eq(&store.get(("default", "a")).unwrap().read(), &kept));
}

#[test]
fn a_recreated_object_is_deleted_and_added() {
    check([
        (List(5, vec![state("a", "1", 3)]), &["initial a:1@3"]),
        (Apply(state("a", "2", 7)), &["deleted a:1@3", "added a:2@7"]),
        (List(9, vec![state("a", "3", 9)]), &["deleted a:2@7", "added a:3@9"]),
    ]);
}

#[test]
fn late_states_are_skipped() {
    check([
        (List(5, vec![state("a", "1", 5)]), &["initial a:1@5"]),
        (Apply(state("a", "1", 4)), &[]),
        (Apply(state("a", "1", 5)), &[]),
        (Apply(state("a", "1", 10)), &["updated a:1@5 -> a:1@10"]),
        // As text, 9 sorts after 10.
        (Apply(state("a", "1", 9)), &[]),
        (Delete(state("a", "1", 8)), &[]),
    ]);
}

#[test]
fn a_resource_that_is_not_served_has_no_objects_and_starts_over() {
    let store =
        check([(List(5, vec![state("a", "1", 5)]), &["initial a:1@5"]), (Absent, &["deleted a:1@5"]), (Absent, &[])]);
    assert!(!store.is_synced() && store.is_absent());
    check([
        (List(5, vec![state("a", "1", 5)]), &["initial a:1@5"]),
        (Absent, &["deleted a:1@5"]),
        (List(9, vec![state("a", "2", 8)]), &["initial a:2@8"]),
    ]);
}

#[test]
fn an_own_write_is_visible_before_the_watch_delivers_it() {
    check([
        (List(5, vec![state("a", "1", 3)]), &["initial a:1@3"]),
        (within("a", "1", 9), &["updated a:1@3 -> a:1@9"]),
        (within("b", "2", 10), &["added b:2@10"]),
        (Apply(state("a", "1", 7)), &[]),
        (Apply(state("a", "1", 9)), &[]),
        (Apply(state("b", "2", 10)), &[]),
        (Apply(state("a", "1", 11)), &["updated a:1@9 -> a:1@11"]),
    ]);
}

#[test]
fn an_own_write_that_the_watch_has_passed_is_outdated() {
    check([
        (List(5, vec![]), &[]),
        (Apply(state("a", "1", 6)), &["added a:1@6"]),
        (Delete(state("a", "1", 7)), &["deleted a:1@7"]),
        (within("a", "1", 6), &[]),
        (within("b", "2", 7), &[]),
    ]);
}

#[test]
fn a_relist_from_before_an_own_write_leaves_it() {
    check([
        (List(5, vec![state("a", "1", 3)]), &["initial a:1@3"]),
        (within("a", "1", 9), &["updated a:1@3 -> a:1@9"]),
        (within("b", "2", 10), &["added b:2@10"]),
        (List(8, vec![state("a", "1", 3)]), &[]),
        (List(12, vec![state("a", "1", 9)]), &["deleted b:2@10"]),
    ]);
}

#[test]
fn an_own_write_that_the_server_has_lost_is_removed() {
    check([
        (List(5, vec![]), &[]),
        (within("a", "1", 6), &["added a:1@6"]),
        (Bookmark(9), &["deleted a:1@6"]),
        (within("a", "1", 12), &["added a:1@12"]),
        (Apply(state("b", "2", 13)), &["deleted a:1@12", "added b:2@13"]),
    ]);
}

#[test]
fn a_server_that_was_restored_from_a_backup_is_trusted() {
    check([
        (List(50, vec![state("a", "1", 50)]), &["initial a:1@50"]),
        (within("b", "2", 51), &["added b:2@51"]),
        (List(9, vec![state("a", "1", 8)]), &["updated a:1@50 -> a:1@8", "deleted b:2@51"]),
        (Apply(state("a", "1", 10)), &["updated a:1@8 -> a:1@10"]),
    ]);
}

#[test]
fn an_object_that_was_deleted_here_does_not_return() {
    check([
        (List(5, vec![state("a", "1", 3)]), &["initial a:1@3"]),
        (Deleted("a", "1"), &["deleted a:1@3"]),
        (Apply(state("a", "1", 6)), &[]),
        (within("a", "1", 7), &[]),
        (List(8, vec![state("a", "1", 7)]), &[]),
        (Delete(state("a", "1", 9)), &[]),
        (Apply(state("a", "2", 10)), &["added a:2@10"]),
    ]);
}

#[test]
fn the_end_of_an_object_does_not_touch_its_successor() {
    check([
        (List(5, vec![state("a", "1", 3)]), &["initial a:1@3"]),
        (Deleted("a", "1"), &["deleted a:1@3"]),
        (within("a", "2", 8), &["added a:2@8"]),
        (Apply(state("a", "1", 6)), &[]),
        (Delete(state("a", "1", 7)), &[]),
        (Apply(state("a", "2", 8)), &[]),
        (Deleted("a", "1"), &[]),
    ]);
}

#[test]
fn an_object_whose_deletion_is_known_only_by_name_is_removed() {
    let gone = |name: &str, revision| Gone(ObjectKey::namespaced("default", name), revision);
    check([
        (List(5, vec![state("a", "1", 3)]), &["initial a:1@3"]),
        (gone("b", 6), &[]),
        (gone("a", 2), &[]),
        (gone("a", 7), &["deleted a:1@3"]),
    ]);
}

#[test]
fn a_delete_persists_if_the_object_had_left_and_reentered_the_scope() {
    check([
        (List(1, vec![]), &[]),
        (Deleted("a", "1"), &[]),
        (Apply(state("a", "1", 3)), &[]),
        (Delete(state("a", "1", 4)), &[]),
        (Apply(state("a", "1", 5)), &[]),
        (Delete(state("a", "1", 6)), &[]),
        (Apply(state("a", "2", 7)), &["added a:2@7"]),
    ]);
}

#[test]
fn an_own_write_that_leaves_the_scope_ends_the_object_at_once() {
    check([
        (List(5, vec![state("a", "1", 3)]), &["initial a:1@3"]),
        (Wrote(state("a", "1", 9), ScopeMatch::Outside), &["deleted a:1@3"]),
        (Wrote(state("b", "2", 10), ScopeMatch::Outside), &[]),
        (Apply(state("a", "1", 7)), &[]),
        (List(8, vec![state("a", "1", 7)]), &[]),
        (Delete(state("a", "1", 9)), &[]),
        (Apply(state("a", "1", 12)), &["added a:1@12"]),
    ]);
}

#[test]
fn in_a_scope_that_only_the_server_knows_an_own_write_changes_only_present_objects() {
    check([
        (List(5, vec![state("a", "1", 3)]), &["initial a:1@3"]),
        (Wrote(state("b", "2", 9), ScopeMatch::Unknown), &[]),
        (Wrote(state("a", "1", 10), ScopeMatch::Unknown), &["updated a:1@3 -> a:1@10"]),
        (Apply(state("b", "2", 9)), &["added b:2@9"]),
        // With the write, it is out of scope for the server.
        (Delete(state("a", "1", 10)), &["deleted a:1@10"]),
    ]);
}

#[test]
fn a_state_of_another_type_is_replaced_by_the_watch() {
    let mut store = check([(List(5, vec![]), &[])]);
    store.wrote(state("a", "1", 6), ScopeMatch::Within, true, &mut |_| ());
    assert_eq!(run(&mut store, Apply(state("a", "1", 6))), ["updated a:1@6 -> a:1@6"]);
    assert_eq!(run(&mut store, Apply(state("a", "1", 6))), Vec::<String>::new());
}

#[test]
fn states_without_revision_or_name_do_no_harm() {
    let nothing = Arc::new(ConfigMap::default());
    let mut store = parsed();
    for step in [
        List(0, vec![nothing.clone(), nothing.clone()]),
        Apply(nothing.clone()),
        Wrote(nothing.clone(), ScopeMatch::Within),
        Delete(nothing.clone()),
        Delete(nothing.clone()),
        Deleted("", ""),
        List(u64::MAX, vec![nothing.clone()]),
        Bookmark(u64::MAX),
    ] {
        run(&mut store, step);
    }
    assert_eq!(store.len(), 1);
}
