//! Authentication and authorization.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tower::ServiceExt;

use crate::client::{CONFIG_MAPS, Client};

#[tokio::test]
async fn anonymous_users_see_health_endpoints_only() {
    let client = Client::new().await;
    for (path, code) in [
        ("/readyz", 200),
        ("/livez/ping", 403),
        ("/api", 401),
        ("/version", 401),
        ("/metrics", 401),
        (CONFIG_MAPS, 401),
    ] {
        let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
        let response = client.server.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), code, "{path}");
    }
}

#[tokio::test]
async fn an_unknown_token_is_rejected() {
    let client = Client::new().await;
    let answer = client.ask(http::Method::GET, CONFIG_MAPS, &[("authorization", "Bearer x")], "").await;
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
async fn impersonation_is_rejected_for_everyone_on_every_path() {
    let client = Client::new().await;
    let cannot = |what: &str, scope: &str| {
        format!(
            "{what} {scope}: this server does not support impersonation",
            what = what.replace("cannot", "is forbidden: User \"admin\" cannot impersonate resource")
        )
    };
    let cluster = "at the cluster scope";
    let sa = "system:serviceaccount:ns:builder";
    for (headers, message) in [
        (&[("impersonate-user", "eve")][..], cannot("users \"eve\" cannot \"users\" in API group \"\"", cluster)),
        (
            &[("impersonate-group", "g"), ("Impersonate-User", sa)],
            cannot(
                "serviceaccounts \"builder\" cannot \"serviceaccounts\" in API group \"\"",
                "in the namespace \"ns\"",
            ),
        ),
        (&[("Impersonate-Group", "g")], cannot("groups \"g\" cannot \"groups\" in API group \"\"", cluster)),
        (
            &[("impersonate-uid", "u")],
            cannot("uids.authentication.k8s.io \"u\" cannot \"uids\" in API group \"authentication.k8s.io\"", cluster),
        ),
        (
            &[("impersonate-extra-scopes", "view")],
            cannot(
                "userextras.authentication.k8s.io \"view\" cannot \"userextras/scopes\" in API group \
                 \"authentication.k8s.io\"",
                cluster,
            ),
        ),
    ] {
        for path in [CONFIG_MAPS, "/api", "/readyz", "/metrics", "/nothing"] {
            let answer = client.ask(http::Method::GET, path, headers, "").await;
            assert_eq!((answer.code, answer.message()), (403, message.clone()), "{path}");
        }
    }
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = client.ask(http::Method::POST, review, &[("impersonate-unknown", "")], "{}").await;
    assert_eq!((answer.code, answer.json()["reason"].as_str()), (403, Some("Forbidden")));
    client.get("/readyz").await.expect(200);
}
