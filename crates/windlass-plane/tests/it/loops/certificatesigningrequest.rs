//! Certificate signing requests: approval, signing and cleanup.

use std::time::Duration;

use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

/// A request from a user in a group.
fn request(name: &str, who: &str, group: &str, signer: &str, usages: &[&str]) -> CertificateSigningRequest {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, who);
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let mut request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"request": "", "signerName": format!("kubernetes.io/{signer}"), "usages": usages,
            "expirationSeconds": 3600},
    }))
    .unwrap();
    request.spec.request = ByteString(pem.into_bytes());
    request
}

fn requests(plane: &TestPlane) -> Api<CertificateSigningRequest> {
    Api::all(plane.client())
}

async fn approve(plane: &TestPlane, name: &str) {
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Tested"}]}});
    requests(plane).patch_approval(name, &PatchParams::default(), &Patch::Strategic(approved)).await.unwrap();
}

async fn certificate(plane: &TestPlane, name: &str) -> Option<String> {
    let status = requests(plane).get(name).await.unwrap().status?;
    status.certificate.map(|certificate| String::from_utf8(certificate.0).unwrap())
}

/// The conditions of a request and their reasons.
async fn conditions(plane: &TestPlane, name: &str) -> Vec<(String, String)> {
    let conditions = requests(plane).get(name).await.unwrap().status.and_then(|status| status.conditions);
    let words = conditions.into_iter().flatten().map(|one| (one.type_, one.reason.unwrap_or_default()));
    words.collect()
}

#[tokio::test]
async fn an_approved_request_is_signed_and_deleted_after_an_hour() {
    let plane = TestPlane::builder().virtual_time().await;
    let usages = ["client auth", "digital signature"];
    let made = request("jane", "jane", "dev", "kube-apiserver-client", &usages);
    requests(&plane).create(&PostParams::default(), &made).await.unwrap();
    plane.advance(Duration::from_secs(10)).await;
    assert_eq!(certificate(&plane, "jane").await, None, "it is not approved");
    approve(&plane, "jane").await;
    let pem = eventually("it is signed", async || certificate(&plane, "jane").await).await;
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n"), "{pem}");
    plane.advance(Duration::from_secs(3300)).await;
    assert!(requests(&plane).get_opt("jane").await.unwrap().is_some());
    plane.advance(Duration::from_secs(700)).await;
    assert!(requests(&plane).get_opt("jane").await.unwrap().is_none());
}

#[tokio::test]
async fn a_request_that_violates_the_rules_of_its_signer_fails() {
    let plane = TestPlane::builder().await;
    let made = request("jane", "jane", "dev", "kube-apiserver-client", &["server auth"]);
    requests(&plane).create(&PostParams::default(), &made).await.unwrap();
    approve(&plane, "jane").await;
    eventually("it fails", async || {
        let failed = ("Failed".to_owned(), "SignerValidationFailure".to_owned());
        conditions(&plane, "jane").await.contains(&failed).then_some(())
    })
    .await;
    assert_eq!(certificate(&plane, "jane").await, None);
}

#[tokio::test]
async fn a_request_of_a_kubelet_is_approved_automatically() {
    let plane = TestPlane::builder().await;
    let signer = "kube-apiserver-client-kubelet";
    let usages = ["client auth", "digital signature", "key encipherment"];
    let made = request("node", "system:node:a", "system:nodes", signer, &usages);
    requests(&plane).create(&PostParams::default(), &made).await.unwrap();
    eventually("it is signed", async || certificate(&plane, "node").await).await;
    assert_eq!(conditions(&plane, "node").await, [("Approved".to_owned(), "AutoApproved".to_owned())]);
}

#[tokio::test]
async fn a_request_cannot_grant_administrator_rights() {
    let plane = TestPlane::builder().await;
    let made = request("root", "root", "system:masters", "kube-apiserver-client", &["client auth"]);
    let rejected = requests(&plane).create(&PostParams::default(), &made).await.unwrap_err().to_string();
    let expected = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert!(rejected.contains(expected), "{rejected}");
}
