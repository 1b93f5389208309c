//! Uses of service account tokens that are recorded: of old ones, and of those in Secrets.

use std::{sync::Arc, time::Duration};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::{Request, header};
use serde_json::{Value, json};
use windlass_apiserver::{Server, authentication::AuthenticationOptions};
use windlass_store::memory::MemoryStore;

use crate::{
    audit::Audited,
    client::{Answer, Client},
};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Sends a request with a token; returns the response and the annotations of its last event.
async fn used(audited: &Audited, token: &str) -> (Answer, Value) {
    let request = Request::get("/api").header(header::AUTHORIZATION, format!("Bearer {token}"));
    let response = audited.send(None, request, "").await;
    let id = response.headers()["audit-id"].to_str().unwrap().to_owned();
    let answer = Answer::read(response).await;
    let event = audited.events(&id).await.pop().unwrap();
    (answer, event["annotations"].clone())
}

async fn counted(client: &Client, name: &str) -> u64 {
    let metrics = client.get("/metrics").await;
    let text = String::from_utf8(metrics.raw.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("serviceaccount_{name} ")));
    line.unwrap().parse().unwrap()
}

/// Creates an account and a pod, and returns the token that a kubelet gets for the pod.
async fn token_of_pod(client: &Client) -> Value {
    client.post(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await.expect(201);
    let spec = json!({"serviceAccountName": "bot", "containers": [{"name": "c", "image": "i"}]});
    client.post(PODS, &json!({"metadata": {"name": "p"}, "spec": spec})).await.expect(201);
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let request = json!({"spec": {"expirationSeconds": 3607, "boundObjectRef": bound}});
    client.post(&format!("{ACCOUNTS}/bot/token"), &request).await.expect(201)
}

fn validity(token: &Value) -> i64 {
    let payload = token["status"]["token"].as_str().unwrap().split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
    claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap()
}

#[tokio::test]
async fn the_late_use_of_a_pods_token_is_annotated() {
    let _time = windlass_clock::virtual_time();
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let made = token_of_pod(&audited.client).await;
    let token = made["status"]["token"].as_str().unwrap();
    let stale = |annotations: &Value| annotations["authentication.k8s.io/stale-token"].as_str().map(str::to_owned);
    let (answer, annotations) = used(&audited, token).await;
    assert_eq!((answer.code, stale(&annotations)), (200, None));
    assert_eq!(counted(&audited.client, "valid_tokens_total").await, 1);
    // Not for longer: the log is written by a thread, for which paused time would not wait.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3607 + 120)).await;
    tokio::time::resume();
    let (answer, annotations) = used(&audited, token).await;
    assert_eq!(answer.code, 200);
    let text = stale(&annotations).unwrap();
    let seconds = text.strip_prefix("subject: system:serviceaccount:default:bot, seconds after warning threshold: ");
    let seconds: u64 = seconds.unwrap().parse().unwrap();
    assert!((120..600).contains(&seconds), "{text}");
    used(&audited, token).await;
    let counts =
        (counted(&audited.client, "stale_tokens_total").await, counted(&audited.client, "valid_tokens_total").await);
    assert_eq!(counts, (1, 1), "a use that is remembered is not counted");
}

#[tokio::test]
async fn the_validity_of_tokens_is_limited_and_not_extended() {
    let server = async |options| {
        let builder = Server::builder(Arc::new(MemoryStore::new()));
        Client::of(builder.authentication(options).build().await.unwrap())
    };
    let most = |seconds| Some(Duration::from_secs(seconds));
    let limited =
        server(AuthenticationOptions { max_token_expiration: most(4000), ..AuthenticationOptions::default() }).await;
    assert_eq!(validity(&token_of_pod(&limited).await), 365 * 24 * 3600, "the extension ignores the limit");
    for (asked, given, warning) in [
        (3999, 3999, None),
        (4000, 4000, None),
        (4001, 4000, Some("299 - \"requested expiration of 4001 seconds shortened to 4000 seconds\"")),
    ] {
        let request = json!({"spec": {"expirationSeconds": asked}});
        let answer = limited.post(&format!("{ACCOUNTS}/bot/token"), &request).await;
        assert_eq!(answer.headers.get("warning").map(|value| value.to_str().unwrap()), warning);
        let made = answer.expect(201);
        assert_eq!((validity(&made), &made["spec"]["expirationSeconds"]), (given, &json!(given)));
    }
    let exact =
        server(AuthenticationOptions { exact_token_expiration: true, ..AuthenticationOptions::default() }).await;
    assert_eq!(validity(&token_of_pod(&exact).await), 3607);
}

#[tokio::test]
async fn the_documents_of_an_issuer_name_other_keys() {
    let options = AuthenticationOptions {
        jwks_uri: Some("https://keys.example.com/jwks".to_owned()),
        ..AuthenticationOptions::default()
    };
    let builder = Server::builder(Arc::new(MemoryStore::new()));
    let client = Client::of(builder.authentication(options).build().await.unwrap());
    let document = client.get("/.well-known/openid-configuration").await.expect(200);
    assert_eq!(document["jwks_uri"], "https://keys.example.com/jwks");
}

#[tokio::test]
async fn uses_of_tokens_in_secrets_are_annotated_and_counted() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let client = &audited.client;
    let account = json!({"metadata": {"name": "bot"}, "secrets": [{"name": "auto"}]});
    let account = client.post(ACCOUNTS, &account).await.expect(201);
    let uid = account["metadata"]["uid"].as_str().unwrap();
    let about = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated \
                 secret-based tokens.";
    for (name, labels, code, annotation, value, counter) in [
        ("manual", json!({}), 200, "legacy-token-manual-secret", "manual", "legacy_manual_token_uses_total"),
        ("auto", json!({}), 200, "legacy-token-autogenerated-secret", "auto", "legacy_auto_token_uses_total"),
        (
            "old",
            json!({"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}),
            401,
            "legacy-token-invalidated",
            "old/default",
            "invalid_legacy_auto_token_uses_total",
        ),
    ] {
        let token = client.server.sign_secret_token("default", name, "bot", uid);
        let metadata = json!({"name": name, "labels": labels,
            "annotations": {"kubernetes.io/service-account.name": "bot"}});
        let secret = json!({"metadata": metadata, "type": "kubernetes.io/service-account-token",
            "data": {"token": STANDARD.encode(&token)}});
        client.post(SECRETS, &secret).await.expect(201);
        let (answer, annotations) = used(&audited, &token).await;
        assert_eq!(answer.code, code, "{name}");
        assert_eq!(annotations[format!("authentication.k8s.io/{annotation}")], value);
        assert_eq!(annotations["authentication.k8s.io/legacy-token"], "system:serviceaccount:default:bot");
        let warning = answer.headers.get("warning").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(warning, (name == "auto").then(|| format!("299 - \"{about}\"")));
        assert_eq!(counted(client, counter).await, 1, "{counter}");
        // A review is a use, too.
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let reviewed = client.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
        assert_eq!(reviewed.headers.contains_key("warning"), name == "auto");
    }
    assert_eq!(counted(client, "legacy_tokens_total").await, 3);
}
