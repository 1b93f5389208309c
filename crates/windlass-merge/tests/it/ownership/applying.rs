//! Server-side apply.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use windlass_merge::apply::field_manager::ApplyError;

use super::{Story, kinds::GROUP};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn check(story: &Story, expected: Expect) {
    expected.assert_eq(&story.managed_fields());
}

fn rejected(story: &mut Story, manager: &str, content: Value) -> ApplyError {
    let before = story.live.clone();
    let error = story.apply(manager, content).expect_err("the apply must be rejected");
    assert_eq!(story.live, before);
    error
}

#[test]
fn fields_no_longer_applied_are_removed_unless_another_manager_owns_them() {
    let mut story = Story::new();
    story
        .apply("one", json!({"spec": {"a": "1", "b": "1", "m": {"x": "1"}, "ports": [{"port": 1, "name": "n"}]}}))
        .unwrap();
    story.apply("two", json!({"spec": {"b": "1"}})).unwrap();
    story.write("user", "", |object, _| object["spec"]["m"]["y"] = "2".into());
    story.apply("one", json!({"spec": {"ports": [{"port": 2}]}})).unwrap();
    assert_eq!(story.live()["spec"], json!({"b": "1", "m": {"y": "2"}, "ports": [{"port": 2}]}));
    check(
        &story,
        expect![[r#"
            Apply two - {"f:spec":{"f:b":{}}}
            Apply one 13:24Z {"f:spec":{"f:ports":{"k:{\"port\":2,\"proto\":\"TCP\"}":{".":{},"f:port":{}}}}}
            Update user 13:23Z {"f:spec":{"f:m":{"f:y":{}}}}
        "#]],
    );
}

/// The results are those of structured-merge-diff v6.3.3 for the same writes.
#[test]
fn a_map_that_an_apply_empties_is_null_until_it_is_applied_again() {
    let mut story = Story::new();
    story.apply("one", json!({"spec": {"m": {"x": "1"}}})).unwrap();
    let emptied = json!({"spec": {}});
    assert_eq!(story.apply("one", emptied.clone()).unwrap()["spec"], json!(null));
    for _ in 0..2 {
        assert_eq!(story.apply("one", emptied.clone()).unwrap()["spec"], json!({}));
    }
    // A map that is not applied anymore is removed, and one with fields of others keeps these.
    story.apply("one", json!({"spec": {"m": {"x": "1"}}})).unwrap();
    assert_eq!(story.apply("one", json!({})).unwrap().get("spec"), None);
    story.apply("one", json!({"spec": {"m": {"x": "1"}}})).unwrap();
    story.write("user", "", |object, _| object["spec"]["m"]["y"] = "2".into());
    assert_eq!(story.apply("one", json!({"spec": {"m": {}}})).unwrap()["spec"], json!({"m": {"y": "2"}}));
}

#[test]
fn conflicts_name_the_managers_and_the_fields() {
    let mut story = Story::new();
    story.apply("one", json!({"spec": {"a": "1", "n": 1, "ports": [{"port": 1, "name": "n"}]}})).unwrap();
    story.write("user", "", |object, _| object["spec"]["b"] = "1".into());
    story.write("controller", "status", |object, _| object["extra"] = "1".into());
    let error = rejected(&mut story, "two", json!({"spec": {"a": "2"}}));
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .spec.a");
    let all = json!({"spec": {"a": "2", "b": "2", "n": 2, "ports": [{"port": 1, "name": "m"}]}, "extra": "2"});
    let error = rejected(&mut story, "two", all.clone());
    expect![[r#"
        Apply failed with 5 conflicts: conflicts with "controller" with subresource "status" using test.example.com/v1:
        - .extra
        conflicts with "one":
        - .spec.a
        - .spec.n
        - .spec.ports[port=1,proto="TCP"].name
        conflicts with "user" using test.example.com/v1:
        - .spec.b"#]]
    .assert_eq(&error.to_string());
    let ApplyError::Conflicts(conflicts) = error else { panic!("it must be a conflict") };
    let causes = conflicts.causes();
    assert_eq!(causes.len(), 5);
    assert_eq!(causes[4].message, "conflict with \"user\" using test.example.com/v1");
    assert_eq!(causes[4].field, ".spec.b");
    story.force("two", all);
    check(
        &story,
        expect![[r#"
            Apply one 13:21Z {"f:spec":{"f:ports":{"k:{\"port\":1,\"proto\":\"TCP\"}":{".":{},"f:port":{}}}}}
            Apply two 13:26Z {"f:extra":{},"f:spec":{"f:a":{},"f:b":{},"f:n":{},"f:ports":{"k:{\"port\":1,\"proto\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}
        "#]],
    );
}

#[test]
fn an_apply_that_changes_nothing_keeps_its_timestamp_or_has_none() {
    let mut story = Story::new();
    story.apply("one", json!({"spec": {"a": "1"}})).unwrap();
    let before = story.live().clone();
    story.apply("one", json!({"spec": {"a": "1"}})).unwrap();
    assert_eq!(*story.live(), before);
    story.apply("two", json!({"spec": {"a": "1"}})).unwrap();
    check(
        &story,
        expect![[r#"
            Apply two - {"f:spec":{"f:a":{}}}
            Apply one 13:21Z {"f:spec":{"f:a":{}}}
        "#]],
    );
}

#[test]
fn atomic_values_are_owned_and_replaced_as_a_whole() {
    let mut story = Story::new();
    story.apply("one", json!({"spec": {"atom": {"p": "1"}, "strings": ["a"], "others": ["a"]}})).unwrap();
    let error = rejected(&mut story, "two", json!({"spec": {"atom": {"q": "1"}, "strings": ["b"], "others": ["b"]}}));
    expect![[r#"
        Apply failed with 2 conflicts: conflicts with "one":
        - .spec.atom
        - .spec.strings"#]]
    .assert_eq(&error.to_string());
    story.force("two", json!({"spec": {"atom": {"q": "1"}, "strings": ["b"], "others": ["b"]}}));
    assert_eq!(story.live()["spec"], json!({"atom": {"q": "1"}, "strings": ["b"], "others": ["a", "b"]}));
}

#[test]
fn invalid_requests_are_rejected() {
    let mut story = Story::new();
    story.apply("one", json!({"spec": {"a": "1"}})).unwrap();
    let error = rejected(&mut story, "one", json!({"metadata": {"managedFields": []}}));
    assert_eq!(error, ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    let failures = [
        (json!({"spec": {"n": "x"}}), ".spec.n: expected numeric (int or float), got string"),
        (json!({"spec": {"others": ["a", "a"]}}), ".spec.others: duplicate entries for key [=\"a\"]"),
        (json!({"spec": {"nope": 1}}), ".spec.nope: field not declared in schema"),
    ];
    for (content, text) in failures {
        let error = rejected(&mut story, "one", content);
        let context = "failed to create typed patch object (/x; test.example.com/v1, Kind=Thing): ";
        assert_eq!(error, ApplyError::Failed(format!("{context}{text}")));
    }
    let manager = story.definition.manager("v1", "");
    for (version, kind) in [("v2", "Thing"), ("v1", "Other")] {
        let patch = json!({"apiVersion": format!("{GROUP}/{version}"), "kind": kind, "metadata": {"name": "x"}});
        let error =
            manager.apply(story.live.as_ref(), &patch, "one", true, windlass_schema::time::Time::from_unix(0, 0));
        let text = format!("invalid object type: {GROUP}/{version}, Kind={kind}");
        assert_eq!(error, Err(ApplyError::BadRequest(text)));
    }
}

#[test]
fn fields_set_by_client_side_apply_do_not_conflict_for_kubectl() {
    let configuration = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "metadata": {"name": "x"},
        "spec": {"a": "1", "b": "1"}});
    let mut object = configuration.clone();
    object["metadata"]["annotations"] = json!({LAST_APPLIED: configuration.to_string(), "other": "kept"});
    let mut story = Story::new();
    story.put("kubectl-client-side-apply", object);
    rejected(&mut story, "someone", json!({"spec": {"a": "<2>"}}));
    story.apply("kubectl", json!({"spec": {"a": "<2>"}})).unwrap();
    // The annotation contains the new configuration, as serialized by Go.
    let annotation = story.live()["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert!(annotation.ends_with("\"spec\":{\"a\":\"\\u003c2\\u003e\"}}\n"), "{annotation}");
    story.write("user", "", |object, _| object["spec"]["b"] = "3".into());
    let error = rejected(&mut story, "kubectl", json!({"spec": {"a": "<2>", "b": "4"}}));
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"user\" using test.example.com/v1: .spec.b"
    );
}

#[test]
fn an_applier_that_changes_its_version_prunes_in_the_old_version() {
    let mut story = Story::new();
    story.apply("one", json!({"spec": {"obj": {"x": "1", "y": "1"}, "a": "1"}})).unwrap();
    let now = story.now();
    let mut patch = json!({"spec": {"obj": {"x": "1"}}, "metadata": {"name": "x"}});
    patch["apiVersion"] = format!("{GROUP}/v1beta1").into();
    patch["kind"] = "Thing".into();
    let mut live = story.live().clone();
    live["apiVersion"] = patch["apiVersion"].clone();
    let object = story.definition.manager("v1beta1", "").apply(Some(&live), &patch, "one", false, now).unwrap();
    assert_eq!(object["spec"], json!({"obj": {"x": "1"}}));
    story.store(object);
    check(
        &story,
        expect![[r#"
            Apply one 13:22Z {"f:spec":{"f:obj":{}}}
        "#]],
    );
}
