//! Authentication and authorization.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::json;
use tower::ServiceExt;
use windlass_apiserver::{
    Server,
    authentication::{AnonymousOptions, AuthenticationOptions, TokenFile},
    user::User,
};
use windlass_store::memory::MemoryStore;

use crate::client::{Answer, CONFIG_MAPS, Client};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Sends a GET without credentials but these headers.
pub(crate) async fn anonymous(client: &Client, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::new())).unwrap();
    Answer::read(client.server.clone().oneshot(request).await.unwrap()).await
}

#[tokio::test]
async fn anonymous_users_see_health_endpoints_and_the_version_only() {
    let client = Client::new().await;
    for (path, code) in [
        ("/readyz", 200),
        ("/livez/ping", 403),
        ("/version", 200),
        ("/api", 403),
        ("/metrics", 403),
        (CONFIG_MAPS, 403),
    ] {
        assert_eq!(anonymous(&client, path, &[]).await.code, code, "{path}");
    }
    assert_eq!(
        anonymous(&client, CONFIG_MAPS, &[]).await.message(),
        "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the \
         namespace \"default\""
    );
}

#[tokio::test]
async fn requests_without_credentials_are_rejected_if_they_may_not_be_anonymous() {
    let client = async |anonymous| {
        let options = AuthenticationOptions { anonymous, ..AuthenticationOptions::default() };
        let builder = Server::builder(Arc::new(MemoryStore::new())).authentication(options);
        Client::of(builder.build().await.unwrap())
    };
    let none = client(AnonymousOptions { enabled: false, paths: Vec::new() }).await;
    for path in ["/readyz", "/version", CONFIG_MAPS] {
        let answer = anonymous(&none, path, &[]).await;
        assert_eq!((answer.code, answer.message().as_str()), (401, "Unauthorized"), "{path}");
    }
    let some = client(AnonymousOptions { enabled: true, paths: vec!["/livez".to_owned()] }).await;
    assert_eq!(anonymous(&some, "/livez", &[]).await.code, 200);
    assert_eq!(anonymous(&some, "/livez/ping", &[]).await.code, 401);
    assert_eq!(anonymous(&some, "/version", &[]).await.code, 401);
}

#[tokio::test]
async fn a_header_without_a_token_is_not_a_credential() {
    let client = Client::new().await;
    let answer = anonymous(&client, "/version", &[("authorization", "Basic eDp5")]).await;
    assert_eq!((answer.code, answer.headers.get("warning")), (200, None));
    let answer = anonymous(&client, "/version", &[("authorization", "Bearer  x")]).await;
    let warning = answer.headers["warning"].to_str().unwrap();
    assert_eq!(answer.code, 200);
    assert_eq!(
        warning,
        "299 - \"the provided Authorization header contains extra space before the bearer token, and is ignored\""
    );
    assert_eq!(anonymous(&client, "/version", &[("authorization", "bearer x")]).await.code, 401);
}

#[tokio::test]
async fn static_tokens_have_users_groups_and_audiences() {
    let file = TokenFile::parse("secret,eve,u1,\"system:masters,dev\"\n").unwrap();
    let options = AuthenticationOptions { token_file: Some(file), ..AuthenticationOptions::default() };
    let builder = Server::builder(Arc::new(MemoryStore::new())).authentication(options);
    let client = Client::of(builder.build().await.unwrap());
    let token = [("authorization", "Bearer secret")];
    assert_eq!(anonymous(&client, CONFIG_MAPS, &token).await.code, 200);
    let user = client.ask(Method::POST, REVIEW, &token, "{}").await.expect(201)["status"]["userInfo"].clone();
    assert_eq!(
        user,
        json!({"username": "eve", "uid": "u1", "groups": ["system:masters", "dev", "system:authenticated"]})
    );
    let review = async |spec: serde_json::Value| {
        let answer = client.post("/apis/authentication.k8s.io/v1/tokenreviews", &json!({"spec": spec})).await;
        answer.expect(201)["status"].clone()
    };
    assert_eq!(
        review(json!({"token": "secret"})).await["audiences"],
        json!(["https://kubernetes.default.svc.cluster.local"])
    );
    assert_eq!(
        review(json!({"token": "secret", "audiences": ["vault"]})).await,
        json!({"user": {}, "error": "invalid bearer token"})
    );
}

#[tokio::test]
async fn bootstrap_tokens_are_accepted_while_their_secrets_are_valid() {
    let options = AuthenticationOptions { bootstrap_tokens: true, ..AuthenticationOptions::default() };
    let builder = Server::builder(Arc::new(MemoryStore::new())).authentication(options);
    let client = Client::of(builder.build().await.unwrap());
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:worker",
        },
    });
    client.post(secrets, &secret).await.expect(201);
    let whoami = async |token: &str| {
        let authorization = format!("Bearer {token}");
        client.ask(Method::POST, REVIEW, &[("authorization", authorization.as_str())], "{}").await
    };
    assert_eq!(
        whoami("abcdef.0123456789abcdef").await.expect(201)["status"]["userInfo"],
        json!({"username": "system:bootstrap:abcdef", "groups": [
            "system:bootstrappers", "system:bootstrappers:worker", "system:authenticated",
        ]})
    );
    assert_eq!(whoami("abcdef.0123456789abcdee").await.code, 401);
    for (key, value) in [("usage-bootstrap-authentication", "false"), ("expiration", "2020-01-01T00:00:00Z")] {
        client
            .merge(&format!("{secrets}/bootstrap-token-abcdef"), &json!({"stringData": {key: value}}))
            .await
            .expect(200);
        assert_eq!(whoami("abcdef.0123456789abcdef").await.code, 401, "{key}");
    }
}

#[tokio::test]
async fn an_unknown_token_is_rejected() {
    let client = Client::new().await;
    let answer = client.ask(Method::GET, CONFIG_MAPS, &[("authorization", "Bearer x")], "").await;
    assert_eq!((answer.code, answer.message().as_str()), (401, "Unauthorized"));
}

#[tokio::test]
async fn whoami_names_the_caller() {
    let client = Client::new().await;
    let review =
        client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &serde_json::json!({})).await.expect(201);
    assert_eq!(review["status"]["userInfo"]["username"], "admin");
}

#[tokio::test]
async fn users_outside_system_masters_may_only_read_discovery() {
    let client = Client::new().await;
    let groups = vec!["system:authenticated".to_owned()];
    let user = windlass_apiserver::user::User { name: "eve".to_owned(), groups, ..Default::default() };
    for (path, code) in
        [("/api", 200), ("/version", 200), ("/metrics", 403), (CONFIG_MAPS, 403), ("/api/v1/nodes/n", 403)]
    {
        let mut request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
        request.extensions_mut().insert(std::sync::Arc::new(user.clone()));
        let response = client.server.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), code, "{path}");
    }
}

#[tokio::test]
async fn an_administrator_can_impersonate_anybody() {
    let client = Client::new().await;
    let whoami = async |headers: &[(&str, &str)]| client.ask(Method::POST, REVIEW, headers, "{}").await;
    let user = whoami(&[
        ("impersonate-user", "eve"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Uid", "u1"),
        ("Impersonate-Extra-acme.com%2Fscope", "view"),
    ])
    .await
    .expect(201)["status"]["userInfo"]
        .clone();
    assert_eq!(
        user,
        json!({"username": "eve", "uid": "u1", "groups": ["dev", "system:authenticated"],
            "extra": {"acme.com/scope": ["view"]}})
    );
    let masters = whoami(&[("impersonate-user", "eve"), ("impersonate-group", "system:masters")]).await.expect(201);
    assert_eq!(masters["status"]["userInfo"]["groups"], json!(["system:masters", "system:authenticated"]));
    // What follows is authorized for the impersonated user.
    let answer = client.ask(Method::GET, CONFIG_MAPS, &[("impersonate-user", "eve")], "").await;
    assert_eq!(
        answer.message(),
        "configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
         \"default\""
    );
    let answer = whoami(&[("impersonate-group", "dev")]).await;
    assert_eq!(
        (answer.code, answer.message().as_str()),
        (
            400,
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\"}, \
             Extra:map[string][]string(nil)} without impersonating a user name"
        )
    );
}

#[tokio::test]
async fn others_may_not_impersonate_on_any_path() {
    let client = Client::new().await;
    let eve = Arc::new(User { name: "eve".to_owned(), ..User::default() });
    for path in [CONFIG_MAPS, "/api", "/readyz", "/metrics", "/nothing"] {
        let mut request = Request::get(path).header("impersonate-user", "admin").body(Full::new(Bytes::new())).unwrap();
        request.extensions_mut().insert(eve.clone());
        let answer = Answer::read(client.server.clone().oneshot(request).await.unwrap()).await;
        let verb = if path == CONFIG_MAPS { "list" } else { "get" };
        assert_eq!(answer.code, 403, "{path}");
        assert!(answer.message().contains(&format!("cannot impersonate-on:user-info:{verb} ")), "{}", answer.message());
    }
}
