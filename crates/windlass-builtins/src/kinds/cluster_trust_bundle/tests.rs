use expect_test::expect;
use serde_json::json;

use super::*;
use crate::kinds::tests::expectations::{check_create, check_update};

const AUTHORITY: &str = include_str!("authority.pem");
const LEAF: &str = include_str!("leaf.pem");

fn bundle(name: &str, signer: &str, bundle: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": bundle}})
}

#[test]
fn the_name_begins_with_that_of_the_signer() {
    check_create(&ClusterTrustBundle, bundle("a", "", AUTHORITY), expect![[""]]);
    check_create(&ClusterTrustBundle, bundle("x.io:s:a", "x.io/s", AUTHORITY), expect![[""]]);
    check_create(
        &ClusterTrustBundle,
        bundle("x.io:s:a", "", AUTHORITY),
        expect![[r#"
        metadata.name: Invalid value: "x.io:s:a": ClusterTrustBundle without signer name must not have ":" in its name
    "#]],
    );
    check_create(
        &ClusterTrustBundle,
        bundle("a", "x.io/s", AUTHORITY),
        expect![[r#"
        metadata.name: Invalid value: "a": ClusterTrustBundle for signerName x.io/s must be named with prefix x.io:s:
    "#]],
    );
    check_create(
        &ClusterTrustBundle,
        bundle("x.io:s:A", "x.io/s", AUTHORITY),
        expect![[r#"
        metadata.name: Invalid value: "x.io:s:A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#]],
    );
    check_create(
        &ClusterTrustBundle,
        bundle("s:a", "s", AUTHORITY),
        expect![[r#"
        spec.signerName: Invalid value: "s": must be a fully qualified domain and path of the form 'example.com/signer-name'
    "#]],
    );
}

#[test]
fn a_bundle_has_certificates_of_authorities() {
    check_create(
        &ClusterTrustBundle,
        bundle("a", "", "nothing"),
        expect![[r#"
        spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided
    "#]],
    );
    let headers = AUTHORITY.replace("CERTIFICATE-----\nMII", "CERTIFICATE-----\nA: b\n\nMII");
    let wrong = [
        LEAF,
        "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n",
        AUTHORITY,
        "-----BEGIN PUBLIC KEY-----\nYWJj\n-----END PUBLIC KEY-----\n",
        AUTHORITY,
        &headers,
    ];
    check_create(
        &ClusterTrustBundle,
        bundle("a", "", &wrong.concat()),
        expect![[r#"
        spec.trustBundle: Invalid value: "<value omitted>": entry 0 does not have the CA bit set
        spec.trustBundle: Invalid value: "<value omitted>": entry 1 does not parse as X.509
        spec.trustBundle: Invalid value: "<value omitted>": entry 3 has bad block type: PUBLIC KEY
        spec.trustBundle: Invalid value: "<value omitted>": entry 5 has PEM block headers
    "#]],
    );
    check_create(
        &ClusterTrustBundle,
        bundle("a", "", &AUTHORITY.repeat(2)),
        expect![[r#"
        spec.trustBundle: Invalid value: "<value omitted>": duplicate trust anchor (indices [0 1])
    "#]],
    );
    let padding = |size: usize| format!("{AUTHORITY}{}", " ".repeat(size - AUTHORITY.len()));
    check_create(&ClusterTrustBundle, bundle("a", "", &padding(MAX_SIZE)), expect![[""]]);
    check_create(
        &ClusterTrustBundle,
        bundle("a", "", &padding(MAX_SIZE + 1)),
        expect![[r#"
        spec.trustBundle: Too long: may not be more than 1048576 bytes
    "#]],
    );
}

#[test]
fn the_signer_never_changes_and_an_unchanged_bundle_is_accepted() {
    let old = bundle("a", "", "broken");
    check_update(&ClusterTrustBundle, old.clone(), old.clone(), expect![[""]]);
    check_update(
        &ClusterTrustBundle,
        bundle("a", "", "also broken"),
        old.clone(),
        expect![[r#"
        spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided
    "#]],
    );
    let named = bundle("x.io:s:a", "x.io/s", "broken");
    check_update(
        &ClusterTrustBundle,
        named,
        bundle("x.io:s:a", "", "broken"),
        expect![[r#"
        spec.signerName: Invalid value: "x.io/s": field is immutable
    "#]],
    );
}
