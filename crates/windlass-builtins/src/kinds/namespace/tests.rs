use expect_test::{Expect, expect};

use super::*;

fn check(errors: ErrorList, expected: Expect) {
    expected.assert_eq(&errors.iter().map(|error| format!("{error}\n")).collect::<String>());
}

#[test]
fn a_new_namespace_gets_its_label_finalizer_and_phase() {
    let mut object = json!({
        "metadata": {"name": "a", "labels": {"team": "x", "kubernetes.io/metadata.name": "other"}},
        "spec": {"finalizers": ["example.com/custom"]},
        "status": {"phase": "Terminating"},
    });
    Namespace.default(&mut object);
    Namespace.prepare_for_create(&mut object, &WriteContext::test());
    let expected = json!({
        "metadata": {"name": "a", "labels": {"team": "x", "kubernetes.io/metadata.name": "a"}},
        "spec": {"finalizers": ["example.com/custom", "kubernetes"]},
        "status": {"phase": "Active"},
    });
    assert_eq!(object, expected);
    Namespace.default(&mut object);
    assert_eq!(object, expected, "defaulting must be idempotent");
}

#[test]
fn an_ordinary_update_keeps_finalizers_and_status() {
    let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let mut object = json!({"spec": {"finalizers": ["example.com/mine"]}, "status": {"phase": "Terminating"}});
    Namespace.prepare_for_update(&mut object, &old, &WriteContext::test());
    assert_eq!(object, old);
}

#[test]
fn finalizers_must_be_standard_or_qualified() {
    let object = json!({"spec": {"finalizers": ["kubernetes", "mine", "a/b/c"]}});
    check(
        Namespace.validate_subresource_update("finalize", &object, &json!({})),
        expect![[r#"
            spec.finalizers[1]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified
            spec.finalizers[2]: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
        "#]],
    );
}

#[test]
fn the_phase_follows_the_deletion_timestamp() {
    let mut object = json!({"metadata": {}, "status": {"phase": "Terminating"}});
    check(
        Namespace.validate_subresource_update("status", &object, &json!({})),
        expect![[r#"
            status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty
        "#]],
    );
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check(Namespace.validate_subresource_update("status", &object, &json!({})), expect![""]);
}

#[test]
fn a_namespace_is_removed_when_no_finalizer_is_left() {
    let mut object =
        json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    assert!(!may_be_removed(&object));
    assert!(begin_deletion(&mut object, Timestamp::UNIX_EPOCH));
    assert_eq!(text(&object, "/metadata/deletionTimestamp"), "1970-01-01T00:00:00Z");
    assert_eq!(text(&object, "/status/phase"), "Terminating");
    assert!(!begin_deletion(&mut object, Timestamp::now()));
    assert!(!may_be_removed(&object));
    object["spec"] = json!({});
    assert!(may_be_removed(&object));
}
