//! Service accounts of pods, and their tokens.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    authentication::AuthenticationOptions,
    public_key::{Jwk, PublicKey},
    tokens::TokenKey,
};
use windlass_store::{Store, memory::MemoryStore};

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
async fn a_token_request_has_metadata() {
    let client = Client::new().await;
    account(&client, json!({"metadata": {"name": "sa"}})).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let headers = [("accept", accept), ("content-type", "application/json")];
    let path = "/api/v1/namespaces/default/serviceaccounts/sa/token";
    let answer = client.ask(Method::POST, path, &headers, "{}").await.expect(201);
    assert_eq!((&answer["kind"], &answer["status"]), (&json!("PartialObjectMetadata"), &json!(null)));
    assert_eq!(answer["metadata"]["name"], "sa");
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
    let path = format!("{ACCOUNTS}/bot/token");
    let elsewhere = client.post(&path, &json!({"metadata": {"namespace": "other"}})).await;
    assert_eq!(
        (elsewhere.code, elsewhere.message().as_str()),
        (400, "the namespace of the provided object does not match the namespace sent on the request")
    );
    assert_eq!(client.post(&path, &json!({"metadata": {"name": "other"}})).await.code, 422);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}});
    assert_eq!(
        client.post(&path, &account).await.message(),
        "ServiceAccount in version \"v1\" cannot be handled as a TokenRequest: converting (v1.ServiceAccount) to \
         (authentication.TokenRequest): unknown conversion"
    );
}

#[tokio::test]
async fn the_first_issuer_signs_and_tokens_of_all_issuers_are_accepted() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let key = TokenKey::generate();
    let server = async |issuers: &[&str], audiences: &[&str]| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let options = AuthenticationOptions {
            service_account_issuers: texts(issuers),
            api_audiences: texts(audiences),
            ..AuthenticationOptions::default()
        };
        let key = TokenKey::from_pem(key.to_pem()).unwrap();
        let builder = Server::builder(store.clone()).authentication(options).token_key(key);
        Client::of(builder.build().await.unwrap())
    };
    let made = async |client: &Client, spec: Value| {
        token(client, "bot", spec).await.expect(201)["status"]["token"].as_str().unwrap().to_owned()
    };
    let claims = |token: &str| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
    };
    let old = server(&["https://old.example.com"], &[]).await;
    account(&old, json!({"metadata": {"name": "bot"}})).await;
    let of_old = made(&old, json!({})).await;
    assert_eq!(claims(&of_old)["iss"], "https://old.example.com");
    assert_eq!(claims(&of_old)["aud"], json!(["https://old.example.com"]));

    let both = server(&["https://new.example.com", "https://old.example.com"], &[]).await;
    let of_new = made(&both, json!({})).await;
    assert_eq!(claims(&of_new)["iss"], "https://new.example.com");
    assert_eq!(claims(&of_new)["aud"], json!(["https://new.example.com", "https://old.example.com"]));
    assert_eq!(whoami(&both, &of_old).await.code, 201);
    assert_eq!(whoami(&both, &of_new).await.code, 201);
    assert_eq!(whoami(&old, &of_new).await.code, 401);

    let other = server(&["https://new.example.com"], &["api"]).await;
    assert_eq!(claims(&made(&other, json!({})).await)["aud"], json!(["api"]));
    assert_eq!(whoami(&other, &of_new).await.code, 401);
    let meant = made(&other, json!({"audiences": ["api", "vault"]})).await;
    assert_eq!(whoami(&other, &meant).await.code, 201);
    assert_eq!(whoami(&other, &made(&other, json!({"audiences": ["vault"]})).await).await.code, 401);
}

#[tokio::test]
async fn the_issuer_publishes_how_to_verify_tokens() {
    let key = TokenKey::generate();
    let public = TokenKey::from_pem(key.to_pem()).unwrap();
    let options = AuthenticationOptions {
        service_account_issuers: vec!["https://issuer.example.com".to_owned()],
        ..AuthenticationOptions::default()
    };
    let builder = Server::builder(Arc::new(MemoryStore::new())).authentication(options).token_key(public);
    let client = Client::of(builder.external_address("127.0.0.1:6443").build().await.unwrap());
    let configuration = client.get("/.well-known/openid-configuration").await;
    assert_eq!(configuration.headers["cache-control"], "public, max-age=3600");
    assert_eq!(
        configuration.expect(200),
        json!({
            "issuer": "https://issuer.example.com", "jwks_uri": "https://127.0.0.1:6443/openid/v1/jwks",
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    );
    let keys = client.get("/openid/v1/jwks").await;
    assert_eq!(keys.headers["content-type"], "application/jwk-set+json");
    let keys = keys.expect(200)["keys"].clone();
    let rejected = client.ask(Method::GET, "/openid/v1/jwks", &[("accept", "application/json")], "").await;
    assert_eq!(
        (rejected.code, rejected.message().as_str()),
        (406, "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json")
    );
    account(&client, json!({"metadata": {"name": "bot"}})).await;
    let made = token(&client, "bot", json!({})).await.expect(201)["status"]["token"].as_str().unwrap().to_owned();
    let (signed, signature) = made.rsplit_once('.').unwrap();
    let found = PublicKey::from_jwk(&serde_json::from_value::<Jwk>(keys[0].clone()).unwrap()).unwrap();
    assert!(found.verifies("ES256", signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()));
    assert_eq!((&keys[0]["kid"], &keys[0]["use"]), (&json!(found.id()), &json!("sig")));
    assert_eq!(client.ask(Method::POST, "/openid/v1/jwks", &[], "").await.code, 405);
    for user in ["system:anonymous", "eve"] {
        assert_eq!(client.ask_as(user, "/openid/v1/jwks").await.code, 403);
    }
}

#[tokio::test]
async fn an_issuer_that_is_not_a_url_has_no_documents() {
    let options = AuthenticationOptions {
        service_account_issuers: vec!["http://issuer.example.com".to_owned()],
        ..AuthenticationOptions::default()
    };
    let builder = Server::builder(Arc::new(MemoryStore::new())).authentication(options);
    let client = Client::of(builder.build().await.unwrap());
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        assert_eq!(client.get(path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn pods_have_no_account_if_the_plugin_is_disabled() {
    let builder = Server::builder(Arc::new(MemoryStore::new())).service_accounts(true);
    let builder = builder.disable_admission_plugins(["ServiceAccount".to_owned(), "PodSecurity".to_owned()]);
    let client = Client::of(builder.build().await.unwrap());
    let made = client.post(PODS, &pod("p", json!({}))).await.expect(201);
    assert_eq!((&made["spec"]["serviceAccountName"], &made["spec"]["volumes"]), (&Value::Null, &Value::Null));
}
