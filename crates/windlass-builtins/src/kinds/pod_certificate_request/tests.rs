use expect_test::expect;
use serde_json::json;

use super::*;
use crate::kinds::tests::expectations::{check_create, check_status, check_update};

/// A request that is signed with a key, the key itself, and certificates for it.
const STUB: &str = "MH8wMwIBADAAMCowBQYDK2VwAyEA4Km6EQ91ZExa7gmUctidppJZcG/Pi87Jtk1dCLrpj3OgADAFBgMrZXADQQDbt7eZBQlzravB3iNU5T02WxdYdFnbjpXsTbJOQinZDjPxmFTGZrDq40gOsk8EFNC6WFu3fszrpkuc+7631MUH";
const KEY: &str = "MCowBQYDK2VwAyEA4Km6EQ91ZExa7gmUctidppJZcG/Pi87Jtk1dCLrpj3M=";
const LEAF: &str = include_str!("certificates/leaf.pem");
const SHORT: &str = include_str!("certificates/short.pem");
/// A certificate for another key.
const OTHER: &str = include_str!("certificates/other.pem");
/// Keys that are not accepted.
const P224: &str =
    "ME4wEAYHKoZIzj0CAQYFK4EEACEDOgAEZRFVQEDDAIXxsmwdoOsYPkQbp8M1cidYmD1z6gBlEk5HhXxe27WwzgRJq98/3fsXPqx5AhxGRlw=";
const RSA_1024: &str = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDZ2wvQ8RNK05qaYNc5CnOjWPy0H7xK1tQ8gF/BikX/PAJbBbfy5g5fGc7KjWBIXVQV3GVhO+P12nIEcsk/NzfDaqY2lTsgXaWKEstpPEaLFAG1oJfeFmkyYl53ItiT9E1pM5XZh0DvOUZ7/k+X60GpWgCT/wcbar8ekAhqwuEUrwIDAQAB";

fn request() -> Value {
    json!({
        "metadata": {"name": "r", "namespace": "n"},
        "spec": {
            "signerName": "example.com/signer",
            "podName": "p", "podUID": "1",
            "serviceAccountName": "s", "serviceAccountUID": "2",
            "nodeName": "m", "nodeUID": "3",
            "maxExpirationSeconds": 86400,
            "stubPKCS10Request": STUB,
        },
    })
}

fn with(changes: &[(&str, Value)]) -> Value {
    let mut object = request();
    for (field, value) in changes {
        object["spec"][*field] = value.clone();
    }
    object
}

#[test]
fn a_request_names_the_pod_its_account_and_its_node() {
    check_create(&PodCertificateRequest, request(), expect![[""]]);
    check_create(
        &PodCertificateRequest,
        with(&[
            ("signerName", json!("signer")),
            ("podName", json!("P")),
            ("podUID", json!("")),
            ("serviceAccountUID", json!("x".repeat(129))),
            ("nodeUID", json!("x".repeat(128))),
            ("unverifiedUserAnnotations", json!({"Plain": "1", "example.com/fine": "2", "a/b/c": "3"})),
        ]),
        expect![[r#"
            spec.signerName: Invalid value: "signer": must be a fully qualified domain and path of the form 'example.com/signer-name'
            spec.unverifiedUserAnnotations: Invalid value: "plain": must be a domain-prefixed key (such as "acme.io/foo")
            spec.unverifiedUserAnnotations: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
            spec.podName: Invalid value: "P": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.podUID: Invalid value: "": must not be empty
            spec.serviceAccountUID: Too long: may not be more than 128 bytes
        "#]],
    );
}

#[test]
fn lifetimes_depend_on_the_signer() {
    let of =
        |signer: &str, seconds: i64| with(&[("signerName", json!(signer)), ("maxExpirationSeconds", json!(seconds))]);
    for (signer, max) in [("example.com/s", 91 * 24 * HOUR), ("kubernetes.io/s", 24 * HOUR)] {
        check_create(&PodCertificateRequest, of(signer, HOUR), expect![[""]]);
        check_create(&PodCertificateRequest, of(signer, max), expect![[""]]);
    }
    check_create(
        &PodCertificateRequest,
        of("example.com/s", HOUR - 1),
        expect![[r#"
        spec.maxExpirationSeconds: Invalid value: 3599: must be in the range [3600, 7862400]
    "#]],
    );
    check_create(
        &PodCertificateRequest,
        of("example.com/s", 91 * 24 * HOUR + 1),
        expect![[r#"
        spec.maxExpirationSeconds: Invalid value: 7862401: must be in the range [3600, 7862400]
    "#]],
    );
    check_create(
        &PodCertificateRequest,
        of("a.kubernetes.io/s", 24 * HOUR + 1),
        expect![[r#"
        spec.maxExpirationSeconds: Invalid value: 86401: must be in the range [3600, 86400]
    "#]],
    );
    check_create(&PodCertificateRequest, with(&[("maxExpirationSeconds", json!(null))]), expect![[""]]);
}

#[test]
fn a_request_has_one_key_of_an_accepted_kind() {
    let key = |key: &str| {
        with(&[("stubPKCS10Request", json!(null)), ("pkixPublicKey", json!(key)), ("proofOfPossession", json!("YQ=="))])
    };
    check_create(&PodCertificateRequest, key(KEY), expect![[""]]);
    check_create(
        &PodCertificateRequest,
        key(P224),
        expect![[r#"
        spec.pkixPublicKey: Invalid value: "curve P-224": elliptic public keys must use curve P256 or P384
    "#]],
    );
    check_create(
        &PodCertificateRequest,
        key(RSA_1024),
        expect![[r#"
        spec.pkixPublicKey: Invalid value: "1024-bit modulus": RSA keys must have modulus size 3072 or 4096
    "#]],
    );
    check_create(
        &PodCertificateRequest,
        key("YWJj"),
        expect![[r#"
        spec.pkixPublicKey: Invalid value: "YWJj": must be a valid PKIX-serialized public key
    "#]],
    );
    check_create(
        &PodCertificateRequest,
        key(&"YWJj".repeat(3414)),
        expect![[r#"
        spec.pkixPublicKey: Too long: may not be more than 10240 bytes
    "#]],
    );
    check_create(
        &PodCertificateRequest,
        with(&[("stubPKCS10Request", json!("YWJj"))]),
        expect![[r#"
        spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR
    "#]],
    );
    check_create(
        &PodCertificateRequest,
        with(&[("pkixPublicKey", json!(KEY))]),
        expect![[r#"
        spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set
    "#]],
    );
    check_create(
        &PodCertificateRequest,
        with(&[("stubPKCS10Request", json!(null))]),
        expect![[r#"
        spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set
    "#]],
    );
}

#[test]
fn the_spec_never_changes() {
    let changed = with(&[("podName", json!("q")), ("stubPKCS10Request", json!("YWJj"))]);
    check_update(
        &PodCertificateRequest,
        changed,
        request(),
        expect![[r#"
        spec: Invalid value: {"SignerName":"example.com/signer","PodName":"q","PodUID":"1","ServiceAccountName":"s","ServiceAccountUID":"2","NodeName":"m","NodeUID":"3","MaxExpirationSeconds":86400,"PKIXPublicKey":null,"ProofOfPossession":null,"StubPKCS10Request":"YWJj","UnverifiedUserAnnotations":null}: field is immutable
    "#]],
    );
    check_update(&PodCertificateRequest, request(), request(), expect![[""]]);
}

fn with_status(status: Value, conditions: &[(&str, &str)]) -> Value {
    let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status, "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut object = request();
    object["status"] = status;
    object["status"]["conditions"] = conditions.iter().map(condition).collect();
    object
}

fn issued(chain: &str, times: [&str; 3]) -> Value {
    let [start, refresh, end] = times;
    let status = json!({"certificateChain": chain, "notBefore": start, "beginRefreshAt": refresh, "notAfter": end});
    with_status(status, &[("Issued", "True")])
}

const START: &str = "2026-01-01T00:00:00Z";
const REFRESH: &str = "2026-01-01T12:00:00Z";
const END: &str = "2026-01-02T00:00:00Z";

#[test]
fn a_request_ends_once() {
    let denied = with_status(json!({}), &[("Denied", "True")]);
    check_status(&PodCertificateRequest, denied.clone(), request(), expect![[""]]);
    check_status(&PodCertificateRequest, denied.clone(), denied.clone(), expect![[""]]);
    check_status(
        &PodCertificateRequest,
        with_status(json!({}), &[("Failed", "True")]),
        denied,
        expect![[r#"
        status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed
    "#]],
    );
    check_status(
        &PodCertificateRequest,
        with_status(json!({"notAfter": END}), &[("Failed", "True")]),
        request(),
        expect![[r#"
            status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest
        "#]],
    );
    check_status(
        &PodCertificateRequest,
        with_status(json!({"notAfter": END}), &[]),
        request(),
        expect![[r#"
        status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", or "Failed"
    "#]],
    );
    check_status(
        &PodCertificateRequest,
        with_status(json!({}), &[("Issued", "False"), ("Failed", "True"), ("Approved", "True")]),
        request(),
        expect![[r#"
            status.conditions.[0].status: Unsupported value: "False": supported values: "True"
            status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition with type "Issued", "Denied", or "Failed"
            status.conditions.[2].type: Unsupported value: "Approved": supported values: "Issued", "Denied", "Failed"
        "#]],
    );
}

#[test]
fn an_issued_certificate_is_for_the_key_and_the_times() {
    let check = |object: Value, expected| check_status(&PodCertificateRequest, object, request(), expected);
    check(issued(LEAF, [START, REFRESH, END]), expect![[""]]);
    check(issued(&LEAF.repeat(2), [START, REFRESH, END]), expect![[""]]);
    check(
        issued("", [START, REFRESH, END]),
        expect![[r#"
        status.certificateChain: Invalid value: "": issued certificate chain must contain at least one certificate
    "#]],
    );
    check(
        issued(OTHER, [START, REFRESH, END]),
        expect![[r#"
        status.certificateChain: Invalid value: "-----BEGIN CERTIFICATE-----\nMIHeMIGRoAMCAQICAQEwBQYDK2VwMBAxDjAMBgNVBAMTBW90aGVyMB4XDTI2MDEw\nMTAwMDAwMFoXDTI2MDEwMjAwMDAwMFowEDEOMAwGA1UEAxMFb3RoZXIwKjAFBgMr\nZXADIQA3qfOrIZLZDjqctCr1kjtC7n4JjqO3WM/QhL5cNEKCx6MQMA4wDAYDVR0T\nAQH/BAIwADAFBgMrZXADQQBN9jkokEk8aQQr6szcd9m9pMx9fKqTxoGMNBl8cksY\n/Akhn83EKBrKwDmuQ1/K/99jaVgD5xhsGSEOY3T2QUAB\n-----END CERTIFICATE-----\n": leaf certificate was not issued to the requested public key
    "#]],
    );
    check(
        issued(SHORT, [START, START, "2026-01-01T00:30:00Z"]),
        expect![[r#"
        status.certificateChain: Invalid value: "a..b.": leaf certificate's DNSName should not contain '..'
        status.certificateChain: Invalid value: "a..b.": leaf certificate's DNSName should not start or end with '.'
        status.certificateChain: Invalid value: 1800000000000: leaf certificate lifetime must be >= 1 hour
    "#]],
    );
    check(
        issued(LEAF, [REFRESH, REFRESH, END]),
        expect![[r#"
        status.notBefore: Invalid value: "2026-01-01T12:00:00Z": must be set to the NotBefore time encoded in the leaf certificate
    "#]],
    );
    check(
        issued(LEAF, [START, REFRESH, REFRESH]),
        expect![[r#"
        status.notAfter: Invalid value: "2026-01-01T12:00:00Z": must be set to the NotAfter time encoded in the leaf certificate
    "#]],
    );
    check(
        issued(LEAF, [START, "2026-01-01T00:09:59Z", END]),
        expect![[r#"
        status.beginRefreshAt: Invalid value: "2026-01-01T00:09:59Z": must be at least 10 minutes after status.notBefore
    "#]],
    );
    check(
        issued(LEAF, [START, "2026-01-01T23:50:01Z", END]),
        expect![[r#"
        status.beginRefreshAt: Invalid value: "2026-01-01T23:50:01Z": must be at least 10 minutes before status.notAfter
    "#]],
    );
    check(
        with_status(json!({"certificateChain": LEAF}), &[("Issued", "True")]),
        expect![[r#"
        status.notBefore: Required value: must be present and consistent with the issued certificate
        status.notAfter: Required value: must be present and consistent with the issued certificate
        status.beginRefreshAt: Required value: must be present and in the range [notbefore+10min, notafter-10min]
    "#]],
    );
    let public_key = "-----BEGIN PUBLIC KEY-----\nYWJj\n-----END PUBLIC KEY-----\n";
    check(
        issued(public_key, [START, REFRESH, END]),
        expect![[r#"
        status.certificateChain: Invalid value: "-----BEGIN PUBLIC KEY-----\nYWJj\n-----END PUBLIC KEY-----\n": issued certificate chain must consist entirely of CERTIFICATE PEM blocks
    "#]],
    );
    check(
        issued(&format!("{LEAF}{public_key}"), [START, REFRESH, END]),
        expect![[r#"
        status.certificateChain: Invalid value: "-----BEGIN CERTIFICATE-----\nMIHcMIGPoAMCAQICAQEwBQYDK2VwMA8xDTALBgNVBAMTBGxlYWYwHhcNMjYwMTAx\nMDAwMDAwWhcNMjYwMTAyMDAwMDAwWjAPMQ0wCwYDVQQDEwRsZWFmMCowBQYDK2Vw\nAyEA4Km6EQ91ZExa7gmUctidppJZcG/Pi87Jtk1dCLrpj3OjEDAOMAwGA1UdEwEB\n/wQCMAAwBQYDK2VwA0EAbGNoevnWYAi8pd80FsDIkEGHg4pn1ATta7SOrhaOsjWa\n4hf6JRNrMPs16s382aPrlXQ8C3N1AYS8L5sD6SsKAA==\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\nYWJj\n-----END PUBLIC KEY-----\n": issued certificate chain must consist entirely of CERTFICATE PEM blocks
    "#]],
    );
}

#[test]
fn columns_show_the_outcome() {
    let state = |object: &Value| cells(object, Timestamp::UNIX_EPOCH)[5].clone();
    assert_eq!(state(&request()), "Pending");
    assert_eq!(state(&with_status(json!({}), &[("Denied", "True")])), "Denied");
}
