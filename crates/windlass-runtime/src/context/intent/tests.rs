use serde_json::json;

use super::*;

fn resource() -> ApiResource {
    ApiResource {
        group: "apps".into(),
        version: "v1".into(),
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        plural: "deployments".into(),
    }
}

fn intent(value: Value) -> Intent {
    Intent::object(&resource(), value)
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("default", "web")
}

/// Returns the record of an apply with the response `answer` at revision 10.
fn applied(intent: &Intent, answer: &Value) -> LastApplied {
    let mut last_applied = LastApplied::default();
    let shown = Some(intent.shown_in(answer));
    last_applied.remember(
        &key(),
        ApplyTarget::Object,
        Applied { intent: intent.fingerprint, uid: "u".into(), revision: 10, shown },
    );
    last_applied
}

fn in_place(last_applied: &mut LastApplied, intent: &Intent, revision: u64, live: &Value) -> bool {
    last_applied.in_place(&key(), ApplyTarget::Object, intent, "u", revision, || Some(intent.shown_in(live)))
}

#[test]
fn an_intent_has_only_fields_that_clients_set() {
    let object = json!({
        "apiVersion": "wrong", "kind": null,
        "metadata": {
            "name": "web", "namespace": "default", "labels": {"a": "b"}, "annotations": null, "ownerReferences": [],
            "finalizers": ["x"], "uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": null,
            "managedFields": [], "generateName": "web-"
        },
        "spec": {"replicas": 1, "paused": null, "list": [{"a": null, "b": 1}]},
        "status": {"replicas": 1}
    });
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "default", "labels": {"a": "b"}, "ownerReferences": [], "finalizers": ["x"]
        },
        "spec": {"replicas": 1, "list": [{"b": 1}]}
    });
    assert_eq!(intent(object).value, expected);
}

#[test]
fn fields_that_the_server_adds_or_rewrites_are_not_differences() {
    let intent = intent(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "containers": [{"name": "a", "cpu": "1000m"}]}
    }));
    let answer = json!({
        "metadata": {"name": "web", "uid": "u"},
        "spec": {"replicas": 1, "strategy": "RollingUpdate", "containers": [{"name": "a", "cpu": "1", "pull": "Always"}]}
    });
    let mut last_applied = applied(&intent, &answer);
    let mut later = answer.clone();
    later["status"] = json!({"ready": 1});
    later["metadata"]["labels"] = json!({"theirs": "x"});
    later["spec"]["strategy"] = "Recreate".into();
    assert!(in_place(&mut last_applied, &intent, 11, &later));
    assert!(in_place(&mut last_applied, &intent, 11, &json!(null)), "a revision is checked once");
}

#[test]
fn changes_to_our_fields_are_a_difference() {
    let ours = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1, "list": [1, 2], "map": {"x": {}}}});
    let intent = intent(ours.clone());
    let table = [
        (
            "a value",
            json!({"metadata": {"labels": {"a": "c"}}, "spec": {"replicas": 1, "list": [1, 2], "map": {"x": {}}}}),
        ),
        (
            "a type",
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": "1", "list": [1, 2], "map": {"x": {}}}}),
        ),
        (
            "a field less",
            json!({"metadata": {"labels": {}}, "spec": {"replicas": 1, "list": [1, 2], "map": {"x": {}}}}),
        ),
        ("no map", json!({"metadata": {}, "spec": {"replicas": 1, "list": [1, 2], "map": {"x": {}}}})),
        (
            "an item more",
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1, "list": [1, 2, 3], "map": {"x": {}}}}),
        ),
        (
            "another order",
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1, "list": [2, 1], "map": {"x": {}}}}),
        ),
        ("a key less", json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1, "list": [1, 2], "map": {}}})),
        ("no object", json!(null)),
    ];
    for (what, live) in table {
        let mut last_applied = applied(&intent, &ours);
        assert!(!in_place(&mut last_applied, &intent, 11, &live), "{what}");
        assert!(in_place(&mut last_applied, &intent, 9, &live), "{what}: seen before our own write");
    }
}

#[test]
fn another_intent_is_applied_even_if_it_sets_less() {
    let before = intent(json!({"spec": {"replicas": 1, "paused": true}}));
    let live = json!({"spec": {"replicas": 1, "paused": true}});
    let mut last_applied = applied(&before, &live);
    assert!(in_place(&mut last_applied, &before, 10, &live));
    assert!(!in_place(&mut last_applied, &intent(json!({"spec": {"replicas": 1}})), 10, &live));
    assert!(!in_place(&mut last_applied, &intent(json!({"spec": {"replicas": 1, "paused": false}})), 10, &live));
}

#[test]
fn another_object_with_the_same_name_and_the_status_are_compared_separately() {
    let intent = intent(json!({"spec": {"replicas": 1}}));
    let live = json!({"spec": {"replicas": 1}});
    let mut last_applied = applied(&intent, &live);
    let shown = || Some(intent.shown_in(&live));
    assert!(!last_applied.in_place(&key(), ApplyTarget::Object, &intent, "another", 11, shown));
    assert!(!last_applied.in_place(&key(), ApplyTarget::Status, &intent, "u", 11, shown));
    assert!(last_applied.in_place(&key(), ApplyTarget::Object, &intent, "u", 11, shown));
    last_applied.forget(&key(), "another");
    assert!(last_applied.in_place(&key(), ApplyTarget::Object, &intent, "u", 11, shown));
    last_applied.forget(&key(), "u");
    assert!(!last_applied.in_place(&key(), ApplyTarget::Object, &intent, "u", 11, shown));
}

#[test]
fn fields_that_are_not_cached_are_applied_again_when_the_object_changes() {
    let intent = intent(json!({"spec": {"replicas": 1}}));
    let mut last_applied = LastApplied::default();
    let unseen = Applied { intent: intent.fingerprint, uid: "u".into(), revision: 10, shown: None };
    last_applied.remember(&key(), ApplyTarget::Object, unseen);
    assert!(last_applied.in_place(&key(), ApplyTarget::Object, &intent, "u", 10, || None));
    assert!(!last_applied.in_place(&key(), ApplyTarget::Object, &intent, "u", 11, || None));
}

#[test]
fn fingerprints_do_not_depend_on_the_order_of_fields_but_on_everything_else() {
    let values = [
        json!(null),
        json!(0),
        json!(1),
        json!(1.5),
        json!("1"),
        json!(true),
        json!(false),
        json!([]),
        json!({}),
        json!([[]]),
        json!([1, 2]),
        json!([2, 1]),
        json!({"a": 1}),
        json!({"a": 2}),
        json!({"b": 1}),
        json!({"a": {"b": 1}}),
        json!({"a": 1, "b": 2}),
        json!({"a": 2, "b": 1}),
        json!({"a": null}),
        json!(""),
    ];
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate() {
            assert_eq!(fingerprint(a) == fingerprint(b), i == j, "{a} {b}");
        }
    }
    let one: Value = serde_json::from_str(r#"{"a":1,"b":{"c":2,"d":3}}"#).unwrap();
    let two: Value = serde_json::from_str(r#"{"b":{"d":3,"c":2},"a":1}"#).unwrap();
    assert_eq!(fingerprint(&one), fingerprint(&two));
}
