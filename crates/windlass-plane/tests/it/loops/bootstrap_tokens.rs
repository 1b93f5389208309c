//! Bootstrap tokens: their deletion, and the signatures that they make.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, api::PostParams};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

fn token(id: &str, expiration: Option<&str>) -> Secret {
    let mut secret = json!({
        "metadata": {"name": format!("bootstrap-token-{id}")},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"},
    });
    if let Some(expiration) = expiration {
        secret["stringData"]["expiration"] = expiration.into();
    }
    serde_json::from_value(secret).unwrap()
}

#[tokio::test]
async fn an_expired_token_is_deleted() {
    let plane = TestPlane::builder().virtual_time().await;
    let secrets: Api<Secret> = Api::namespaced(plane.client(), "kube-system");
    let soon = windlass_clock::now_in_seconds().checked_add(SignedDuration::from_secs(100)).unwrap().to_string();
    secrets.create(&PostParams::default(), &token("aaaaaa", Some(&soon))).await.unwrap();
    secrets.create(&PostParams::default(), &token("bbbbbb", None)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(secrets.get_opt("bootstrap-token-aaaaaa").await.unwrap().is_some());
    eventually("the token is deleted", async || {
        secrets.get_opt("bootstrap-token-aaaaaa").await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(secrets.get_opt("bootstrap-token-bbbbbb").await.unwrap().is_some());
}

#[tokio::test]
async fn the_information_about_a_cluster_is_signed_by_every_token() {
    let plane = TestPlane::builder().await;
    let secrets: Api<Secret> = Api::namespaced(plane.client(), "kube-system");
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), "kube-public");
    let info =
        json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "text", "jws-kubeconfig-cccccc": "old"}});
    maps.create(&PostParams::default(), &serde_json::from_value(info).unwrap()).await.unwrap();
    secrets.create(&PostParams::default(), &token("aaaaaa", None)).await.unwrap();
    eventually("the token has signed", async || {
        let data = maps.get("cluster-info").await.unwrap().data.unwrap();
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        (keys == ["jws-kubeconfig-aaaaaa", "kubeconfig"]).then_some(())
    })
    .await;
}
