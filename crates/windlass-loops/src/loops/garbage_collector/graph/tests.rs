use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

use super::*;

const MAPS: Source = 0;

fn owner(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: name.into(),
        uid: uid.into(),
        ..OwnerReference::default()
    }
}

fn blocking(name: &str, uid: &str) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(true), ..owner(name, uid) }
}

/// An object whose UID is its name.
fn object(namespace: &str, name: &str, owners: &[OwnerReference]) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some(namespace.into()),
        uid: Some(name.into()),
        owner_references: Some(owners.to_vec()),
        ..ObjectMeta::default()
    }
}

fn deleted(meta: ObjectMeta, finalizer: &str) -> ObjectMeta {
    let deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    ObjectMeta { deletion_timestamp, finalizers: Some(vec![finalizer.into()]), ..meta }
}

fn started() -> Graph {
    let mut graph = Graph::new();
    graph.start();
    graph
}

fn observe(graph: &mut Graph, meta: &ObjectMeta) -> Vec<String> {
    let kind = graph.names.kind("v1", "ConfigMap");
    let observed = graph.names.observed(&kind, meta).unwrap();
    graph.observe(MAPS, observed);
    effects(graph)
}

fn effects(graph: &mut Graph) -> Vec<String> {
    let show = |effect| match effect {
        Effect::Attempt(uid) => format!("attempt {uid}"),
        Effect::Orphan(uid) => format!("orphan {uid}"),
        Effect::WrongNamespace { dependent, owner } => format!("{} is not where {} is", owner.name, dependent.name),
    };
    graph.effects().into_iter().map(show).collect()
}

fn identity(graph: &Graph, uid: &str) -> Identity {
    graph.item(&Uid::new(uid)).unwrap().identity
}

#[test]
fn an_unseen_owner_is_looked_up() {
    let mut graph = started();
    assert_eq!(observe(&mut graph, &object("n", "child", &[owner("a", "a")])), ["attempt a"]);
    assert!(graph.item(&Uid::new("a")).unwrap().is_virtual);
    // Only once.
    assert_eq!(observe(&mut graph, &object("n", "sister", &[owner("a", "a")])), [""; 0]);
    assert_eq!(observe(&mut graph, &object("n", "a", &[])), [""; 0]);
    assert!(!graph.item(&Uid::new("a")).unwrap().is_virtual);
    assert_eq!(graph.dependents(&Uid::new("a")).len(), 2);
}

#[test]
fn nothing_is_looked_up_before_the_first_lists_are_complete() {
    let mut graph = Graph::new();
    assert_eq!(observe(&mut graph, &object("n", "one", &[owner("a", "a")])), [""; 0]);
    assert_eq!(observe(&mut graph, &object("n", "two", &[owner("b", "b")])), [""; 0]);
    assert_eq!(observe(&mut graph, &object("n", "a", &[])), [""; 0]);
    graph.start();
    assert_eq!(effects(&mut graph), ["attempt b"]);
}

#[test]
fn dependents_of_a_deleted_owner_are_processed() {
    let mut graph = started();
    observe(&mut graph, &object("n", "a", &[]));
    observe(&mut graph, &object("n", "child", &[owner("a", "a")]));
    let a = identity(&graph, "a");
    graph.gone(&a.uid);
    assert_eq!(effects(&mut graph), ["attempt child"]);
    assert!(graph.is_absent(&a));
    // An identity without dependents is not cached.
    let child = identity(&graph, "child");
    graph.gone(&child.uid);
    assert_eq!(effects(&mut graph), [""; 0]);
    assert!(!graph.is_absent(&child));
    assert_eq!(graph.len(), 0);
}

#[test]
fn an_owner_waits_for_blocking_dependents() {
    let mut graph = started();
    observe(&mut graph, &object("n", "a", &[]));
    observe(&mut graph, &object("n", "child", &[blocking("a", "a")]));
    observe(&mut graph, &object("n", "free", &[owner("a", "a")]));
    let waiting = deleted(object("n", "a", &[]), "foregroundDeletion");
    assert_eq!(observe(&mut graph, &waiting), ["attempt child", "attempt free", "attempt a"]);
    assert!(graph.item(&Uid::new("a")).unwrap().is_blocked);
    assert_eq!(observe(&mut graph, &waiting), [""; 0], "no news");
    // A late dependent is processed as well.
    assert_eq!(observe(&mut graph, &object("n", "late", &[blocking("a", "a")])), ["attempt late"]);
    graph.gone(&Uid::new("late"));
    assert_eq!(effects(&mut graph), ["attempt a"]);
    assert_eq!(observe(&mut graph, &object("n", "child", &[owner("a", "a")])), ["attempt a"]);
    assert!(!graph.item(&Uid::new("a")).unwrap().is_blocked);
}

#[test]
fn an_orphaning_owner_is_processed_once() {
    let mut graph = started();
    let orphaning = deleted(object("n", "a", &[]), "orphan");
    assert_eq!(observe(&mut graph, &orphaning), ["orphan a"]);
    assert_eq!(observe(&mut graph, &orphaning), [""; 0]);
    let at = |second| Timestamp::from_second(second).unwrap();
    graph.remember_orphaned(Uid::new("a"), Orphaned { until: 10, since: Some(at(5)) });
    let dependent = |revision: &str, made| ObjectMeta {
        resource_version: Some(revision.into()),
        creation_timestamp: Some(Time(at(made))),
        ..ObjectMeta::default()
    };
    assert!(graph.was_orphaned(&Uid::new("a"), &dependent("9", 6)));
    assert!(graph.was_orphaned(&Uid::new("a"), &dependent("11", 5)), "written since, made before");
    assert!(!graph.was_orphaned(&Uid::new("a"), &dependent("11", 6)), "created after the deletion");
    assert!(!graph.was_orphaned(&Uid::new("b"), &dependent("9", 5)));
}

#[test]
fn an_owner_in_another_namespace_is_reported_in_either_order() {
    let mut graph = started();
    observe(&mut graph, &object("far", "a", &[]));
    let child = object("n", "child", &[owner("a", "a")]);
    assert_eq!(observe(&mut graph, &child), ["a is not where child is", "attempt child"]);

    let mut graph = started();
    assert_eq!(observe(&mut graph, &child), ["attempt a"]);
    assert_eq!(observe(&mut graph, &object("far", "a", &[])), ["a is not where child is", "attempt child"]);
}

#[test]
fn a_cluster_scoped_owner_matches_in_every_namespace() {
    let mut graph = started();
    observe(&mut graph, &object("n", "child", &[owner("a", "a")]));
    assert_eq!(observe(&mut graph, &object("", "a", &[])), [""; 0]);
    assert_eq!(observe(&mut graph, &object("m", "other", &[owner("a", "a")])), [""; 0]);
}

#[test]
fn alternatives_of_a_uid_are_tried_in_turn() {
    let mut graph = started();
    observe(&mut graph, &object("n", "one", &[owner("x", "a")]));
    assert_eq!(observe(&mut graph, &object("n", "two", &[owner("y", "a")])), ["attempt two"]);
    let first = identity(&graph, "a");
    assert_eq!(&*first.name, "x");
    graph.verified_absent(&first);
    assert_eq!(effects(&mut graph), ["attempt one"]);
    assert!(graph.is_absent(&first));
    let second = identity(&graph, "a");
    assert_eq!(&*second.name, "y");
    // No dependent refers to the first one anymore.
    graph.gone(&Uid::new("one"));
    effects(&mut graph);
    graph.verified_absent(&second);
    assert_eq!(effects(&mut graph), ["attempt two"]);
    assert!(graph.item(&Uid::new("a")).is_none());
}

#[test]
fn a_wrong_reference_does_not_remove_the_existing_owner() {
    let mut graph = started();
    observe(&mut graph, &object("n", "a", &[]));
    observe(&mut graph, &object("n", "good", &[owner("a", "a")]));
    assert_eq!(observe(&mut graph, &object("n", "bad", &[owner("x", "a")])), ["attempt bad"]);
    let wrong = Identity { name: "x".into(), ..identity(&graph, "a") };
    graph.verified_absent(&wrong);
    assert_eq!(effects(&mut graph), ["attempt bad"]);
    assert!(graph.item(&Uid::new("a")).is_some());
}

#[test]
fn a_list_reveals_deletions_and_unserved_objects_are_kept() {
    let mut graph = started();
    observe(&mut graph, &object("n", "a", &[]));
    observe(&mut graph, &object("n", "b", &[]));
    observe(&mut graph, &object("n", "child", &[owner("a", "a"), owner("b", "b")]));
    graph.only(MAPS, &["a", "child"].into_iter().map(Uid::new).collect());
    assert_eq!(effects(&mut graph), ["attempt child"]);
    graph.unserved(MAPS);
    assert_eq!(effects(&mut graph), ["attempt a"]);
    assert!(graph.item(&Uid::new("a")).is_none() || graph.item(&Uid::new("a")).unwrap().is_virtual);
    assert!(graph.item(&Uid::new("child")).is_none());
}

#[test]
fn an_object_may_own_itself() {
    let mut graph = started();
    observe(&mut graph, &object("n", "a", &[blocking("a", "a")]));
    observe(&mut graph, &deleted(object("n", "a", &[blocking("a", "a")]), "foregroundDeletion"));
    graph.gone_by_name(MAPS, "n", "a");
    assert_eq!(graph.len(), 0);
}
