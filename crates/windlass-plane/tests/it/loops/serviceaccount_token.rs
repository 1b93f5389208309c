//! Secrets with tokens of service accounts.

use http::{Request, header};
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::SelfSubjectReview,
        core::v1::{Secret, ServiceAccount},
    },
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

fn secret(account: &str) -> Secret {
    serde_json::from_value(json!({
        "metadata": {"name": "credentials", "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    }))
    .unwrap()
}

fn account(name: &str) -> ServiceAccount {
    serde_json::from_value(json!({"metadata": {"name": name}, "secrets": [{"name": "credentials"}]})).unwrap()
}

/// Waits for the token of the Secret.
async fn token(secrets: &Api<Secret>) -> String {
    let filled = eventually("the Secret has a token", async || {
        let data = secrets.get_opt("credentials").await.unwrap()?.data?;
        (data.len() == 3).then_some(data)
    })
    .await;
    let text = |ByteString(bytes): &ByteString| String::from_utf8(bytes.clone()).unwrap();
    assert!(text(&filled["ca.crt"]).contains("BEGIN CERTIFICATE"));
    text(&filled["token"])
}

/// Returns the name of the user of a token; `None` if the token is rejected.
async fn user(plane: &TestPlane, token: &str) -> Option<String> {
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(b"{}".to_vec())
        .unwrap();
    let review: SelfSubjectReview = plane.client().request(request).await.ok()?;
    review.status?.user_info?.username
}

#[tokio::test]
async fn a_secret_gets_the_token_of_its_account_and_is_deleted_with_it() {
    let plane = TestPlane::builder().await;
    let (secrets, accounts) = (plane.api::<Secret>(), plane.api::<ServiceAccount>());
    accounts.create(&PostParams::default(), &account("bot")).await.unwrap();
    secrets.create(&PostParams::default(), &secret("bot")).await.unwrap();
    let token = token(&secrets).await;
    let name = format!("system:serviceaccount:{}:bot", plane.namespace());
    assert_eq!(user(&plane, &token).await, Some(name));
    // Its use is noted, and a token that is marked as invalid is rejected.
    let labels = secrets.get("credentials").await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["kubernetes.io/legacy-token-last-used"].len(), "2026-01-01".len());
    let mark = async |value: serde_json::Value| {
        let labels = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": value}}});
        secrets.patch("credentials", &PatchParams::default(), &Patch::Merge(labels)).await.unwrap();
    };
    mark(json!("2026-01-01")).await;
    assert_eq!(user(&plane, &token).await, None);
    mark(json!(null)).await;
    assert!(user(&plane, &token).await.is_some());
    // Another token in the Secret is not the server's.
    let other = json!({"stringData": {"token": "mine"}});
    secrets.patch("credentials", &PatchParams::default(), &Patch::Merge(other)).await.unwrap();
    assert_eq!(user(&plane, &token).await, None);
    accounts.delete("bot", &DeleteParams::default()).await.unwrap();
    eventually("the Secret is deleted", async || secrets.get_opt("credentials").await.unwrap().is_none().then_some(()))
        .await;
}

#[tokio::test]
async fn a_secret_of_an_account_that_does_not_exist_is_deleted() {
    let plane = TestPlane::builder().await;
    let secrets = plane.api::<Secret>();
    secrets.create(&PostParams::default(), &secret("nobody")).await.unwrap();
    eventually("the Secret is deleted", async || secrets.get_opt("credentials").await.unwrap().is_none().then_some(()))
        .await;
}

#[tokio::test]
async fn an_account_forgets_a_deleted_secret() {
    let plane = TestPlane::builder().await;
    let (secrets, accounts) = (plane.api::<Secret>(), plane.api::<ServiceAccount>());
    accounts.create(&PostParams::default(), &account("bot")).await.unwrap();
    secrets.create(&PostParams::default(), &secret("bot")).await.unwrap();
    token(&secrets).await;
    secrets.delete("credentials", &DeleteParams::default()).await.unwrap();
    eventually("the account has no secret", async || {
        accounts.get("bot").await.unwrap().secrets.is_none_or(|secrets| secrets.is_empty()).then_some(())
    })
    .await;
}
