use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::names::name_is_dns_subdomain;

fn shown(errors: ErrorList, expected: Expect) {
    let text: Vec<_> = errors.iter().map(ToString::to_string).collect();
    expected.assert_eq(&text.join("\n"));
}

fn create(meta: Value, namespaced: bool, expected: Expect) {
    let map = meta.as_object().expect("metadata must be an object");
    shown(validate_object_meta(map, namespaced, name_is_dns_subdomain, &Path::new("metadata")), expected);
}

fn update(new: Value, old: Value, expected: Expect) {
    let (new, old) = (new.as_object().expect("the value must be an object"), old.as_object().expect("an object"));
    shown(validate_object_meta_update(new, old, &Path::new("metadata")), expected);
}

#[test]
fn valid_metadata_has_no_errors() {
    create(json!({"name": "a", "namespace": "b", "labels": {"x/y": "z"}}), true, expect![""]);
    create(json!({"name": "a", "generateName": "a-"}), false, expect![""]);
}

#[test]
fn a_new_object_needs_name_and_namespace() {
    create(
        json!({}),
        true,
        expect![[r#"
        metadata.name: Required value: name or generateName is required
        metadata.namespace: Required value"#]],
    );
    create(
        json!({"name": "A", "namespace": "n"}),
        false,
        expect![[r#"
        metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        metadata.namespace: Forbidden: not allowed on this type"#]],
    );
    create(
        json!({"name": "a", "namespace": "n.x", "generation": -1}),
        true,
        expect![[r#"
        metadata.namespace: Invalid value: "n.x": must not contain dots
        metadata.generation: Invalid value: -1: must be greater than or equal to 0"#]],
    );
}

#[test]
fn labels_annotations_and_finalizers_are_validated() {
    create(
        json!({"name": "a", "labels": {"a b": "c d"}, "annotations": {"X Y": "", "UPPER": "fine"},
               "finalizers": ["kubernetes", "orphan", "foregroundDeletion", "a b"]}),
        false,
        expect![[r#"
            metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            metadata.labels: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            metadata.annotations: Invalid value: "X Y": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            metadata.finalizers: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            metadata.finalizers: Invalid value: ["kubernetes","orphan","foregroundDeletion","a b"]: finalizer orphan and foregroundDeletion cannot be both set"#]],
    );
    create(
        json!({"name": "a", "annotations": {"a": "x".repeat(256 << 10)}}),
        false,
        expect!["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
}

#[test]
fn owner_references_must_be_complete_and_have_one_controller() {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    create(
        json!({"name": "a", "ownerReferences": [owner, owner, {"apiVersion": "a/b/c"},
               {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u", "blockOwnerDeletion": false}]}),
        false,
        expect![[r#"
            metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true},{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true},{"apiVersion":"a/b/c","kind":"","name":"","uid":""},{"apiVersion":"v1","kind":"Event","name":"e","uid":"u","blockOwnerDeletion":false}]: Only one reference can have Controller set to true. Found "true" in references for Pod/p and Pod/p
            metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty
            metadata.ownerReferences.kind: Invalid value: "": must not be empty
            metadata.ownerReferences.name: Invalid value: "": must not be empty
            metadata.ownerReferences.uid: Invalid value: "": must not be empty
            metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"u","blockOwnerDeletion":false}: /v1, Kind=Event is disallowed from being an owner"#]],
    );
}

#[test]
fn managed_fields_must_have_an_operation_and_manager() {
    create(
        json!({"name": "a", "managedFields": [{"operation": "Eat", "fieldsType": "V2", "manager": "a\nb"}]}),
        false,
        expect![[r#"
            metadata.managedFields[0].operation: Invalid value: "Eat": must be `Apply` or `Update`
            metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`
            metadata.managedFields[0].manager: Invalid value: "a\nb": invalid character U+000A (at position 1)"#]],
    );
}

#[test]
fn identity_never_changes() {
    let old = json!({"name": "a", "uid": "u", "resourceVersion": "1", "generation": 2,
        "creationTimestamp": "2024-01-01T00:00:00Z", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["x/y"]});
    update(old.clone(), old.clone(), expect![""]);
    let same_instant = json!({"name": "a", "uid": "u", "resourceVersion": "1", "generation": 2,
        "creationTimestamp": "2024-01-01T01:00:00+01:00", "deletionTimestamp": "2024-01-01T00:00:00Z"});
    update(same_instant, old.clone(), expect![""]);
    update(
        json!({"name": "b", "finalizers": ["b/c", "x/y", "a/b"], "deletionGracePeriodSeconds": 3}),
        old,
        expect![[r#"
            metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a/b", "b/c"}
            metadata.resourceVersion: Invalid value: "": must be specified for an update
            metadata.generation: Invalid value: 0: must not be decremented
            metadata.name: Invalid value: "b": field is immutable
            metadata.uid: Invalid value: "": field is immutable
            metadata.creationTimestamp: Invalid value: null: field is immutable
            metadata.deletionTimestamp: Invalid value: null: field is immutable
            metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable"#]],
    );
}
