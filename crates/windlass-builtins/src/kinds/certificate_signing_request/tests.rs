use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn check(errors: ErrorList, expected: Expect) {
    expected.assert_eq(&errors.iter().map(|error| format!("{error}\n")).collect::<String>());
}

fn pem(kind: &str) -> String {
    STANDARD.encode(format!("-----BEGIN {kind}-----\nYWJj\n-----END {kind}-----\n"))
}

fn request() -> Value {
    json!({"spec": {"request": pem("CERTIFICATE REQUEST"), "signerName": "example.com/signer", "usages": ["client auth"]}})
}

fn with_condition(kind: &str, reason: &str) -> Value {
    let mut object = request();
    object["status"] = json!({"conditions": [{"type": kind, "status": "True", "reason": reason}]});
    object
}

#[test]
fn a_request_needs_valid_pem_known_usages_and_a_signer() {
    check(CertificateSigningRequest.validate(&request()), expect![""]);
    let bad = json!({"spec": {"request": "bm90IGEgY3Ny", "signerName": "nodomain", "usages": ["any", "any"], "expirationSeconds": 5}});
    check(
        CertificateSigningRequest.validate(&bad),
        expect![[r#"
            spec.request: Invalid value: "bm90IGEgY3Ny": PEM block type must be CERTIFICATE REQUEST
            spec.usages[1]: Duplicate value: "any"
            spec.signerName: Invalid value: "nodomain": must be a fully qualified domain and path of the form 'example.com/signer-name'
            spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)
        "#]],
    );
}

#[test]
fn only_the_approval_subresource_approves_and_approval_is_final() {
    let approved = with_condition("Approved", "a");
    check(
        CertificateSigningRequest.validate_subresource_update("status", &approved, &request()),
        expect![[r#"
            status.conditions: Forbidden: updates may not add a condition of type "Approved"
        "#]],
    );
    check(CertificateSigningRequest.validate_subresource_update("approval", &approved, &request()), expect![""]);
    check(
        CertificateSigningRequest.validate_subresource_update("approval", &with_condition("Denied", "b"), &approved),
        expect![[r#"
            status.conditions: Forbidden: updates may not remove a condition of type "Approved"
        "#]],
    );
    let mut both = approved.clone();
    let conditions = both["status"]["conditions"].as_array_mut().expect("the conditions must be a list");
    conditions.push(json!({"type": "Denied", "status": "False"}));
    check(
        CertificateSigningRequest.validate_subresource_update("approval", &both, &approved),
        expect![[r#"
            status.conditions[1].status: Unsupported value: "False": supported values: "True"
            status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive
        "#]],
    );
}

#[test]
fn a_certificate_is_issued_once_through_the_status() {
    let mut issued = request();
    issued["status"] = json!({"certificate": pem("CERTIFICATE")});
    check(CertificateSigningRequest.validate_subresource_update("status", &issued, &request()), expect![""]);
    let mut other = issued.clone();
    other["status"]["certificate"] = json!(pem("PUBLIC KEY"));
    check(
        CertificateSigningRequest.validate_subresource_update("status", &other, &issued),
        expect![[r#"
            status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "PUBLIC KEY"
            status.certificate: Forbidden: updates may not modify existing certificate content
        "#]],
    );
}

#[test]
fn the_requester_is_the_user_who_creates_the_request() {
    let extra = [("scopes".to_owned(), vec!["a".to_owned()])].into();
    let groups = ["system:authenticated".to_owned()];
    let context = WriteContext { user_uid: "u1", groups: &groups, extra: &extra, ..WriteContext::test() };
    let mut object = json!({"spec": {"username": "another user", "signerName": "example.com/a"}});
    CertificateSigningRequest.prepare_for_create(&mut object, &context);
    let expected = json!({
        "signerName": "example.com/a", "username": "alice", "uid": "u1",
        "groups": ["system:authenticated"], "extra": {"scopes": ["a"]},
    });
    assert_eq!(object["spec"], expected);
}

#[test]
fn updates_change_only_their_own_part() {
    let old = with_condition("Approved", "old");
    let mut main = with_condition("Denied", "new");
    main["spec"]["expirationSeconds"] = json!(7200);
    CertificateSigningRequest.prepare_for_update(&mut main, &old, &WriteContext::test());
    assert_eq!(main, old);

    let mut status = with_condition("Approved", "new");
    status["status"]["certificate"] = json!("YQ==");
    CertificateSigningRequest.prepare_for_subresource_update("status", &mut status, &old, &WriteContext::test());
    assert_eq!(status["status"]["conditions"][0]["reason"], "old");
    assert!(is_set(&status, "/status/conditions/0/lastUpdateTime"));
    assert_eq!(status["status"]["certificate"], "YQ==");

    let mut approval = with_condition("Approved", "new");
    approval["status"]["certificate"] = json!("YQ==");
    CertificateSigningRequest.prepare_for_subresource_update("approval", &mut approval, &old, &WriteContext::test());
    assert_eq!(approval["status"]["conditions"][0]["reason"], "new");
    assert!(approval["status"].get("certificate").is_none());
}
