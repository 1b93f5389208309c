//! Service accounts of pods, and their tokens.

use http::Method;
use serde_json::{Value, json};

use crate::client::{Answer, Client};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

async fn account(client: &Client, account: Value) {
    client.post(ACCOUNTS, &account).await.expect(201);
}

async fn token(client: &Client, account: &str, spec: Value) -> Answer {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    client.post(&format!("{ACCOUNTS}/{account}/token"), &request).await
}

/// Returns the user of a token.
async fn whoami(client: &Client, token: &str) -> Answer {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let authorization = format!("Bearer {token}");
    let headers = [("content-type", "application/json"), ("authorization", authorization.as_str())];
    client.ask(Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &headers, review).await
}

#[tokio::test]
async fn a_pod_runs_as_an_account_and_finds_its_token() {
    let client = Client::with_service_accounts().await;
    account(&client, json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "pull"}]})).await;
    let made = client.post(PODS, &pod("p", json!({}))).await.expect(201);
    let spec = &made["spec"];
    assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("default"), &json!("default")));
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    let volume = spec["volumes"][0]["name"].as_str().unwrap();
    assert!(volume.starts_with("kube-api-access-") && volume.len() == 21, "{volume}");
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], volume);
}

#[tokio::test]
async fn a_pod_whose_account_is_missing_is_rejected() {
    let client = Client::with_service_accounts().await;
    let rejected = client.post(PODS, &pod("p", json!({"serviceAccountName": "nobody"}))).await;
    assert_eq!(
        rejected.message(),
        "pods \"p\" is forbidden: error looking up service account default/nobody: serviceaccount \"nobody\" not found"
    );
}

#[tokio::test]
async fn a_pod_waits_a_moment_for_the_account_that_every_namespace_gets() {
    let client = Client::with_service_accounts().await;
    let pod = pod("p", json!({}));
    let (made, ()) = tokio::join!(client.post(PODS, &pod), async {
        tokio::task::yield_now().await;
        account(&client, json!({"metadata": {"name": "default"}})).await;
    });
    made.expect(201);
}

#[tokio::test]
async fn a_token_is_valid_for_its_audiences_and_time() {
    let client = Client::new().await;
    account(&client, json!({"metadata": {"name": "bot"}})).await;
    let made = token(&client, "bot", json!({})).await.expect(201);
    assert_eq!(made["metadata"]["name"], "bot");
    assert_eq!(made["spec"]["expirationSeconds"], 3600);
    let uid = client.get(&format!("{ACCOUNTS}/bot")).await.expect(200)["metadata"]["uid"].clone();
    let text = made["status"]["token"].as_str().unwrap();
    let user = whoami(&client, text).await.expect(201)["status"]["userInfo"].clone();
    assert_eq!((&user["username"], &user["uid"]), (&json!("system:serviceaccount:default:bot"), &uid));
    assert_eq!(
        user["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    // It is for the server only, and a token for another audience is not for the server.
    let other = token(&client, "bot", json!({"audiences": ["parity"]})).await.expect(201);
    assert_eq!(whoami(&client, other["status"]["token"].as_str().unwrap()).await.code, 401);
    assert_eq!(whoami(&client, &format!("{text}x")).await.code, 401);
    client.delete(&format!("{ACCOUNTS}/bot")).await.expect(200);
    assert_eq!(whoami(&client, text).await.code, 401);
}

#[tokio::test]
async fn a_token_review_returns_the_user_of_the_token() {
    let client = Client::new().await;
    account(&client, json!({"metadata": {"name": "bot"}})).await;
    let review = async |spec: Value| {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        client.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await
    };
    let made = token(&client, "bot", json!({"audiences": ["vault"]})).await.expect(201);
    let text = &made["status"]["token"];
    let known = review(json!({"token": text, "audiences": ["vault", "other"]})).await.expect(201);
    assert_eq!(known["spec"], json!({"token": text, "audiences": ["vault", "other"]}));
    assert_eq!((&known["status"]["authenticated"], &known["status"]["audiences"]), (&json!(true), &json!(["vault"])));
    assert_eq!(known["status"]["user"]["username"], "system:serviceaccount:default:bot");
    let meant_for_others = review(json!({"token": text})).await.expect(201);
    assert_eq!(
        meant_for_others["status"],
        json!({"user": {}, "error": "[invalid bearer token, token audiences [\"vault\"] is invalid for the target \
            audiences [\"https://kubernetes.default.svc.cluster.local\"]]"})
    );
    let garbage = review(json!({"token": "nonsense"})).await.expect(201);
    assert_eq!(garbage["status"], json!({"user": {}, "error": "invalid bearer token"}));
    assert_eq!(review(json!({})).await.code, 400);
}

#[tokio::test]
async fn a_token_is_invalid_when_its_bound_object_is_deleted() {
    let client = Client::new().await;
    account(&client, json!({"metadata": {"name": "bot"}})).await;
    client.post(PODS, &pod("p", json!({"serviceAccountName": "bot"}))).await.expect(201);
    client.post(PODS, &pod("q", json!({}))).await.expect(201);
    let bound = |name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name}});
    let made = token(&client, "bot", bound("p")).await.expect(201);
    let text = made["status"]["token"].as_str().unwrap();
    let extra = whoami(&client, text).await.expect(201)["status"]["userInfo"]["extra"].clone();
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["p"]));
    client.delete(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(whoami(&client, text).await.code, 401);
    assert_eq!(
        token(&client, "bot", bound("q")).await.message(),
        "cannot bind token for serviceaccount \"bot\" to pod running with different serviceaccount name."
    );
    assert_eq!(token(&client, "bot", bound("p")).await.code, 404);
    let strange = json!({"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}});
    assert_eq!(
        token(&client, "bot", strange).await.message(),
        "cannot bind token to object of type apps/v1, Kind=Deployment"
    );
}

#[tokio::test]
async fn an_invalid_token_request_is_rejected() {
    let client = Client::new().await;
    account(&client, json!({"metadata": {"name": "bot"}})).await;
    assert_eq!(
        token(&client, "bot", json!({"expirationSeconds": 60})).await.message(),
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a \
         duration less than 10 minutes"
    );
    assert_eq!(token(&client, "nobody", json!({})).await.code, 404);
}
