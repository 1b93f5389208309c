use base64::Engine as _;
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn check(errors: ErrorList, expected: Expect) {
    expected.assert_eq(&errors.iter().map(|error| format!("{error}\n")).collect::<String>());
}

#[test]
fn keys_must_be_valid_and_unique() {
    let object =
        json!({"data": {"a": "1", "a/b": "2", "..": "3", "ok.key_-": ""}, "binaryData": {"a": "AA==", "": "AA=="}});
    check(
        ConfigMap.validate(&object),
        expect![[r#"
            data[..]: Invalid value: "..": must not be '..'
            data[a]: Invalid value: "a": duplicate of key present in binaryData
            data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
            binaryData[]: Invalid value: "": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
        "#]],
    );
}

#[test]
fn the_data_is_limited_to_one_mebibyte() {
    let half = MAX_DATA_SIZE / 2;
    let mut object = json!({"data": {"a": "x".repeat(half)}, "binaryData": {"b": STANDARD.encode(vec![0; half])}});
    assert!(ConfigMap.validate(&object).is_empty());
    object["data"]["c"] = json!("y");
    check(
        ConfigMap.validate(&object),
        expect![[r#"
            : Too long: may not be more than 1048576 bytes
        "#]],
    );
}

#[test]
fn immutable_data_cannot_change() {
    let old = json!({"immutable": true, "data": {"a": "1"}});
    check(
        ConfigMap.validate_update(&json!({"immutable": true, "data": {"a": "1"}, "binaryData": {}}), &old),
        expect![""],
    );
    check(
        ConfigMap.validate_update(&json!({"data": {"a": "2"}, "binaryData": {"b": "AA=="}}), &old),
        expect![[r#"
            immutable: Forbidden: field is immutable when `immutable` is set
            data: Forbidden: field is immutable when `immutable` is set
            binaryData: Forbidden: field is immutable when `immutable` is set
        "#]],
    );
    check(ConfigMap.validate_update(&json!({"data": {"a": "2"}}), &json!({"data": {"a": "1"}})), expect![""]);
}
