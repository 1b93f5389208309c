//! A webhook that authenticates tokens.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    authentication::webhook_token::{TokenReviewVersion, WebhookTokenOptions},
};
use windlass_store::memory::MemoryStore;

use crate::{oidc::whoami, webhook_server::WebhookServer};

const TTL: Duration = Duration::from_secs(120);

/// Starts a server that asks a webhook.
async fn server(webhook: &WebhookServer, version: TokenReviewVersion, cache_ttl: Duration) -> Server {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("webhook.kubeconfig");
    let kubeconfig = json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {
            "server": format!("https://{}/authenticate", webhook.address),
            "certificate-authority-data": webhook.ca_bundle,
        }}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    });
    fs::write(&file, kubeconfig.to_string()).unwrap();
    let options = WebhookTokenOptions { version, cache_ttl, ..WebhookTokenOptions::new(&file) };
    Server::builder(Arc::new(MemoryStore::new())).token_webhook(options).build().await.unwrap()
}

/// Knows the token `good`, does not know `unknown`, and has an error for others.
fn review(review: &Value) -> (u16, Value) {
    let user = json!({"username": "jane", "uid": "7", "groups": ["a"], "extra": {"k": ["v"]}});
    let status = match review["spec"]["token"].as_str().unwrap() {
        "good" => json!({"authenticated": true, "user": user}),
        "elsewhere" => json!({"authenticated": true, "user": user, "audiences": ["elsewhere"]}),
        "unknown" => json!({"authenticated": false}),
        _ => json!({"authenticated": false, "error": "broken"}),
    };
    (200, json!({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status}))
}

#[tokio::test(start_paused = true)]
async fn a_webhook_reviews_tokens() {
    let _time = windlass_clock::virtual_time();
    let webhook = WebhookServer::start(&[], |_, asked| review(asked)).await;
    for (version, name) in [
        (TokenReviewVersion::V1, "authentication.k8s.io/v1"),
        (TokenReviewVersion::V1Beta1, "authentication.k8s.io/v1beta1"),
    ] {
        let server = server(&webhook, version, TTL).await;
        let user = whoami(&server, "good").await.unwrap();
        assert_eq!((&user["username"], &user["uid"]), (&json!("jane"), &json!("7")));
        assert_eq!(user["groups"], json!(["a", "system:authenticated"]));
        assert_eq!(user["extra"], json!({"k": ["v"]}));
        let (path, asked) = webhook.take_seen().remove(0);
        assert_eq!(
            (path.as_str(), &asked["apiVersion"], &asked["kind"]),
            ("/authenticate", &json!(name), &json!("TokenReview"))
        );
        assert_eq!(
            asked["spec"],
            json!({"token": "good", "audiences": ["https://kubernetes.default.svc.cluster.local"]})
        );
        for token in ["unknown", "strange", "elsewhere"] {
            assert_eq!(whoami(&server, token).await, Err(401), "{token}");
        }
        webhook.take_seen();
    }
}

#[tokio::test(start_paused = true)]
async fn responses_are_reused_but_errors_are_not() {
    let _time = windlass_clock::virtual_time();
    let webhook = WebhookServer::start(&[], |_, asked| review(asked)).await;
    let server = server(&webhook, TokenReviewVersion::V1, TTL).await;
    for token in ["good", "unknown"] {
        let concurrent = (0..5).map(|_| whoami(&server, token));
        let answers = futures_util::future::join_all(concurrent).await;
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(whoami(&server, token).await, answers[0]);
        assert_eq!(webhook.take_seen().len(), 1, "{token}");
        tokio::time::sleep(TTL).await;
        assert_eq!(whoami(&server, token).await, answers[0]);
        assert_eq!(webhook.take_seen().len(), 1, "{token}");
    }
    for _ in 0..2 {
        assert_eq!(whoami(&server, "strange").await, Err(401));
        assert_eq!(webhook.take_seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_down_rejects_tokens_until_it_is_back() {
    let _time = windlass_clock::virtual_time();
    let down = Arc::new(AtomicBool::new(true));
    let seen_down = down.clone();
    let webhook = WebhookServer::start(&[], move |_, asked| match seen_down.load(Ordering::SeqCst) {
        true => (500, json!({})),
        false => review(asked),
    })
    .await;
    let server = server(&webhook, TokenReviewVersion::V1, Duration::ZERO).await;
    assert_eq!(whoami(&server, "good").await, Err(401));
    assert_eq!(webhook.take_seen().len(), 5, "it is called again, but not forever");
    down.store(false, Ordering::SeqCst);
    assert!(whoami(&server, "good").await.is_ok());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(whoami(&server, "good").await.is_ok());
    assert_eq!(webhook.take_seen().len(), 2, "without a time to live, answers are not kept");
    drop(webhook);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(whoami(&server, "good").await, Err(401));
}
