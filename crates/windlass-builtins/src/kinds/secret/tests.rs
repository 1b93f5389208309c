use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn check(mut object: Value, expected: Expect) {
    Secret.default(&mut object);
    expected.assert_eq(&Secret.validate(&object).iter().map(|error| format!("{error}\n")).collect::<String>());
}

#[test]
fn string_data_overrides_data() {
    let mut object = json!({"data": {"user": "YQ==", "both": "b2xk"}, "stringData": {"pass": "s3cret", "both": "new"}});
    Secret.default(&mut object);
    let expected = json!({"data": {"both": "bmV3", "pass": "czNjcmV0", "user": "YQ=="}, "type": "Opaque"});
    assert_eq!(object, expected);
    Secret.default(&mut object);
    assert_eq!(object, expected, "defaulting must be idempotent");
}

#[test]
fn known_types_require_their_keys() {
    check(
        json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ=="}}),
        expect![[r#"
        data[tls.key]: Required value
    "#]],
    );
    check(
        json!({"type": "kubernetes.io/basic-auth", "data": {}}),
        expect![[r#"
        data[username]: Required value
        data[password]: Required value
    "#]],
    );
    check(json!({"type": "kubernetes.io/basic-auth", "stringData": {"password": ""}}), expect![""]);
    check(
        json!({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}),
        expect![[r#"
        data[ssh-privatekey]: Required value
    "#]],
    );
    check(
        json!({"type": "kubernetes.io/service-account-token"}),
        expect![[r#"
        metadata.annotations[kubernetes.io/service-account.name]: Required value
    "#]],
    );
    check(
        json!({"type": "kubernetes.io/dockercfg"}),
        expect![[r#"
        data[.dockercfg]: Required value
    "#]],
    );
    check(
        json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "not json"}}),
        expect![[r#"
        data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character 'o' in literal null (expecting 'u')
    "#]],
    );
    check(
        json!({"type": "helm.sh/release.v1", "stringData": {"a/b": ""}}),
        expect![[r#"
        data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
    "#]],
    );
}

#[test]
fn the_type_never_changes_and_immutable_data_neither() {
    let old = json!({"type": "Opaque", "immutable": true, "data": {"a": "YQ=="}});
    let errors = Secret.validate_update(&json!({"type": "example.com/other"}), &old);
    expect![[r#"
        type: Invalid value: "example.com/other": field is immutable
        immutable: Forbidden: field is immutable when `immutable` is set
        data: Forbidden: field is immutable when `immutable` is set"#]]
    .assert_eq(&errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

#[test]
fn too_much_data_is_rejected() {
    check(
        json!({"stringData": {"a": "x".repeat(MAX_DATA_SIZE + 1)}}),
        expect![[r#"
        data: Too long: may not be more than 1048576 bytes
    "#]],
    );
}
