//! The time limits of requests.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Method, Request, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_apiserver::{
    Server,
    admission::{Admission, Attributes, Operation},
    status::Result,
    user::User,
};
use windlass_store::memory::MemoryStore;

use crate::client::{CONFIG_MAPS, Client, config_map};

#[tokio::test]
async fn a_wrong_time_limit_is_rejected_before_the_user_is_known() {
    let client = Client::of(Server::builder(Arc::new(MemoryStore::new())).build().await.unwrap());
    let wrong = [("authorization", "Bearer wrong")];
    for (path, duration, why) in [
        (CONFIG_MAPS, "x", "invalid duration \\\"x\\\""),
        (CONFIG_MAPS, "1", "missing unit in duration \\\"1\\\""),
        ("/apis", "1y", "unknown unit \\\"y\\\" in duration \\\"1y\\\""),
        ("/livez", "x", "invalid duration \\\"x\\\""),
        ("/nowhere", "x", "invalid duration \\\"x\\\""),
    ] {
        let path = format!("{path}?timeout={duration}");
        let rejected = client.ask(Method::GET, &path, &wrong, "").await;
        let text = String::from_utf8(rejected.raw.to_vec()).unwrap();
        let message = format!("\"message\":\"invalid timeout specified in the request URL - time: {why}\"");
        assert!(rejected.code == 400 && text.contains(&message), "{path}: {text}");
    }
    for path in [format!("{CONFIG_MAPS}?watch=1&timeout=x"), "/api/v1/namespaces/a/pods/p/log?timeout=x".to_owned()] {
        assert_eq!(client.ask(Method::GET, &path, &wrong, "").await.code, 401, "long-running requests have no limit");
    }
    assert_eq!(client.ask(Method::GET, &format!("{CONFIG_MAPS}?timeout="), &wrong, "").await.code, 401);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_gets_a_status_without_its_kind() {
    let client = Client::new().await;
    let begin = stream::once(async { Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(b"{"))) });
    let mut request = Request::post(format!("{CONFIG_MAPS}?timeout=3s"))
        .header(header::CONTENT_TYPE, "application/json")
        .header("audit-id", "mine")
        .body(StreamBody::new(begin.chain(stream::pending()).boxed()))
        .unwrap();
    request.extensions_mut().insert(Arc::new(User::admin()));
    let begun = tokio::time::Instant::now();
    let response = client.server.clone().oneshot(request).await.unwrap();
    assert_eq!((response.status().as_u16(), begun.elapsed().as_secs()), (504, 3));
    let headers = response.headers().clone();
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(headers["audit-id"], "mine");
    assert!(!headers.contains_key("x-kubernetes-pf-flowschema-uid"), "{headers:?}");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let expected = "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete within the \
                    allotted timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n";
    assert_eq!(body, expected);
}

/// Takes 50 seconds for objects that are named `slow`.
struct Slow;

#[async_trait]
impl Admission for Slow {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let concerned = matches!(write.operation, Operation::Update | Operation::Delete);
        if concerned && object["metadata"]["name"] == "slow" {
            tokio::time::sleep(Duration::from_secs(50)).await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_has_34_seconds_and_the_deletion_of_a_collection_has_60() {
    let builder = Server::builder(Arc::new(MemoryStore::new())).admission(Slow);
    let client = Client::of(builder.build().await.unwrap());
    let path = format!("{CONFIG_MAPS}/slow");
    client.post(CONFIG_MAPS, &config_map("slow")).await.expect(201);
    for method in ["PUT", "PATCH", "DELETE"] {
        let method: Method = method.parse().unwrap();
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if method == "DELETE" { String::new() } else { config_map("slow").to_string() };
        let begun = tokio::time::Instant::now();
        let status = client.ask(method.clone(), &path, &[("content-type", media)], body).await.expect(504);
        assert_eq!(begun.elapsed().as_secs(), 34, "{method}");
        assert_eq!(
            (&status["kind"], &status["reason"], &status["message"]),
            (
                &json!("Status"),
                &json!("Timeout"),
                &json!("Timeout: request did not complete within requested timeout - context deadline exceeded")
            )
        );
    }
    client.get(&path).await.expect(200);
    let begun = tokio::time::Instant::now();
    client.delete(CONFIG_MAPS).await.expect(200);
    assert_eq!(begun.elapsed().as_secs(), 50);
    assert_eq!(client.get(&path).await.code, 404);
}
