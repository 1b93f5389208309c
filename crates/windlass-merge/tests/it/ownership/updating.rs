//! Managed fields after creates, updates and patches.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use windlass_merge::apply::field_manager::{default_manager, keep_times_if_unchanged, validate_managed_fields};

use super::{
    Story,
    kinds::{Definition, GROUP, schema},
};

fn check(story: &Story, expected: Expect) {
    expected.assert_eq(&story.managed_fields());
}

#[test]
fn a_writer_owns_what_it_sets_and_takes_what_it_changes() {
    let mut story = Story::new();
    story.put("create", json!({"spec": {"a": "1", "m": {"k": "v"}}}));
    story.put("update", json!({"spec": {"a": "2", "m": {"k": "v"}, "b": "1"}}));
    check(
        &story,
        expect![[r#"
            Update create 13:21Z {"f:spec":{".":{},"f:m":{".":{},"f:k":{}}}}
            Update update 13:22Z {"f:spec":{"f:a":{},"f:b":{}}}
        "#]],
    );
    story.put("remover", json!({"spec": {"a": "2"}}));
    check(
        &story,
        expect![[r#"
            Update create 13:21Z {"f:spec":{}}
            Update update 13:22Z {"f:spec":{"f:a":{}}}
        "#]],
    );
}

#[test]
fn a_write_that_changes_nothing_leaves_no_trace() {
    let mut story = Story::new();
    story.put("create", json!({"spec": {"a": "1"}}));
    let before = story.managed_fields();
    story.put("other", json!({"spec": {"a": "1"}}));
    assert_eq!(story.managed_fields(), before);
    story.put("create", json!({"spec": {"a": "1"}}));
    assert_eq!(story.managed_fields(), before);
}

#[test]
fn an_object_without_fields_has_no_managed_fields() {
    let mut story = Story::new();
    story.put("create", json!({}));
    assert_eq!(story.live().pointer("/metadata/managedFields"), None);
}

#[test]
fn the_status_endpoint_has_its_own_entries_and_ignores_other_fields() {
    let mut story = Story::new();
    story.put("create", json!({"spec": {"a": "1"}, "status": {"s": "ignored"}}));
    story.write("controller", "status", |object, _| {
        object["status"] = json!({"s": "x"});
        object["spec"]["a"] = "ignored".into();
        object["metadata"]["labels"] = json!({"ignored": "1"});
        object["extra"] = "not ignored".into();
        object["metadata"]["managedFields"] = json!([]);
    });
    check(
        &story,
        expect![[r#"
            Update create 13:21Z {"f:spec":{".":{},"f:a":{}}}
            Update controller/status 13:22Z {"f:extra":{},"f:status":{"f:s":{}}}
        "#]],
    );
}

#[test]
fn an_empty_list_or_entry_clears_managed_fields_until_the_next_apply() {
    for reset in [json!([]), json!([{}]), json!([{"manager": "", "time": null}])] {
        let mut story = Story::new();
        story.put("create", json!({"spec": {"a": "1"}}));
        story.write("r", "", |object, _| object["metadata"]["managedFields"] = reset.clone());
        assert_eq!(story.managed_fields(), "");
        story.put("later", json!({"spec": {"a": "2"}}));
        assert_eq!(story.managed_fields(), "");
        story.force("applier", json!({"spec": {"a": "3"}}));
        check(
            &story,
            expect![[r#"
                Apply applier 13:24Z {"f:spec":{"f:a":{}}}
                Update before-first-apply 13:24Z {"f:spec":{}}
            "#]],
        );
    }
}

#[test]
fn a_list_sent_by_the_client_is_used_if_it_is_valid() {
    let entry = |operation: &str, fields: Value| {
        json!([{"manager": "hand", "operation": operation, "apiVersion": format!("{GROUP}/v1"),
            "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2023-11-14T22:01:00+01:00"}])
    };
    let valid = entry("Update", json!({"f:spec": {"f:ports": {"k:{\"proto\":\"TCP\",\"port\":1}": {}}}}));
    let mut story = Story::new();
    story.put("create", json!({"spec": {"a": "1"}}));
    story.write("w", "", |object, _| object["metadata"]["managedFields"] = valid.clone());
    check(
        &story,
        expect![[r#"
            Update hand 2023-11-14T21:01:00Z {"f:spec":{"f:ports":{"k:{\"port\":1,\"proto\":\"TCP\"}":{}}}}
        "#]],
    );
    let before = story.managed_fields();
    let invalid = [
        entry("Frob", json!({})),
        entry("Update", json!({"x": {}})),
        entry("Update", json!(["f:spec"])),
        json!(["entry"]),
        json!([{"manager": 1}]),
        json!("text"),
        json!(null),
    ];
    for sent in invalid {
        story.write("w", "", |object, _| object["metadata"]["managedFields"] = sent.clone());
        assert_eq!(story.managed_fields(), before, "{sent}");
    }
}

#[test]
fn managed_fields_changed_by_admission_are_validated() {
    let entry = |name: &str, value: Value| {
        let mut entry = json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"});
        entry[name] = value;
        validate_managed_fields(&[entry])
    };
    assert_eq!(entry("fieldsV1", json!({"f:a": {}})), Ok(()));
    assert_eq!(entry("operation", json!("")), Err("operation must be `Apply` or `Update`".to_owned()));
    assert_eq!(entry("apiVersion", json!("")), Err("apiVersion must not be empty".to_owned()));
    assert_eq!(entry("fieldsType", json!("")), Err("missing fieldsType in managed fields entry 0".to_owned()));
    assert_eq!(entry("fieldsType", json!("V2")), Err("invalid fieldsType \"V2\" in managed fields entry 0".to_owned()));
    assert!(entry("fieldsV1", json!({"f": {}})).is_err());
}

#[test]
fn at_most_ten_update_managers_are_kept() {
    let mut story = Story::new();
    for number in 0..13 {
        story.write(&format!("writer-{number:02}"), "", |object, _| {
            object["spec"]["m"][format!("k{number:02}")] = "v".into();
        });
    }
    check(
        &story,
        expect![[r#"
            Update ancient-changes 13:24Z {"f:spec":{".":{},"f:m":{".":{},"f:k00":{},"f:k01":{},"f:k02":{},"f:k03":{}}}}
            Update writer-04 13:25Z {"f:spec":{"f:m":{"f:k04":{}}}}
            Update writer-05 13:26Z {"f:spec":{"f:m":{"f:k05":{}}}}
            Update writer-06 13:27Z {"f:spec":{"f:m":{"f:k06":{}}}}
            Update writer-07 13:28Z {"f:spec":{"f:m":{"f:k07":{}}}}
            Update writer-08 13:29Z {"f:spec":{"f:m":{"f:k08":{}}}}
            Update writer-09 13:30Z {"f:spec":{"f:m":{"f:k09":{}}}}
            Update writer-10 13:31Z {"f:spec":{"f:m":{"f:k10":{}}}}
            Update writer-11 13:32Z {"f:spec":{"f:m":{"f:k11":{}}}}
            Update writer-12 13:33Z {"f:spec":{"f:m":{"f:k12":{}}}}
        "#]],
    );
}

#[test]
fn an_object_that_violates_its_schema_loses_its_managed_fields() {
    let mut story = Story::new();
    story.put("create", json!({"spec": {"a": "1"}}));
    story.put("create", json!({"spec": {"a": {"no": "string"}}}));
    assert_eq!(story.managed_fields(), "");
}

#[test]
fn an_entry_of_a_version_removed_from_the_crd_clears_all_entries() {
    let mut story = Story::new();
    story.put("create", json!({"spec": {"a": "1"}}));
    story.write("w", "", |object, entries| {
        let mut entries = entries.expect("the creator must own something");
        let mut old = entries[0].clone();
        old["apiVersion"] = format!("{GROUP}/v0").into();
        old["manager"] = "old".into();
        entries.as_array_mut().expect("it must be a list").push(old);
        object["metadata"]["managedFields"] = entries;
    });
    assert_eq!(story.managed_fields(), "");
}

#[test]
fn entries_from_before_a_field_became_atomic_are_updated() {
    let mut story = Story::new();
    story.put("create", json!({"spec": {"obj": {"x": "1", "deep": {"z": "1"}}, "strings": ["a"], "a": "1"}}));
    story.definition = Definition::of([("v1", schema("atomic", "set", "set"))]);
    story.write("w", "", |object, _| object["spec"]["a"] = "2".into());
    check(
        &story,
        expect![[r#"
            Update create 13:21Z {"f:spec":{".":{},"f:obj":{},"f:strings":{}}}
            Update w 13:22Z {"f:spec":{"f:a":{}}}
        "#]],
    );
}

#[test]
fn a_write_that_changes_only_timestamps_is_a_no_op() {
    let mut story = Story::new();
    story.put("create", json!({"spec": {"a": "1"}}));
    let old = story.live().clone();
    let mut new = old.clone();
    assert!(!keep_times_if_unchanged(&old, &mut new), "nothing differs at all");
    new["metadata"]["managedFields"][0]["time"] = "2024-01-01T00:00:00Z".into();
    let mut changed = new.clone();
    changed["spec"]["a"] = "2".into();
    assert!(!keep_times_if_unchanged(&old, &mut changed));
    let mut renamed = new.clone();
    renamed["metadata"]["managedFields"][0]["manager"] = "x".into();
    assert!(!keep_times_if_unchanged(&old, &mut renamed));
    assert!(keep_times_if_unchanged(&old, &mut new));
    assert_eq!(new, old);
}

#[test]
fn managers_are_named_after_the_user_agent() {
    assert_eq!(default_manager("kubectl/v1.36.0 (linux/amd64) kubernetes/abc"), "kubectl");
    assert_eq!(default_manager("curl"), "curl");
    assert_eq!(default_manager("a\tb\u{7f}c é/1"), "abc é");
    assert_eq!(default_manager(&"é".repeat(100)), "é".repeat(64));
    assert_eq!(default_manager(""), "");
    let mut story = Story::new();
    story.put("", json!({"spec": {"a": "1"}}));
    assert!(story.managed_fields().starts_with("Update unknown "));
}
