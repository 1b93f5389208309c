//! Audit IDs of responses, deprecated versions, and requests without a user.

use http::{Method, Request, Response, header};
use serde_json::{Value, json};
use windlass_apiserver::{RuntimeConfig, body::Body, user::User};

use super::{Audited, stages};
use crate::client::{Answer, CONFIG_MAPS, Client};

#[tokio::test]
async fn a_request_that_is_rejected_before_its_user_is_known_has_one_event() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let events = audited.events_of(Method::GET, "/api?timeout=x", "application/json", "").await;
    assert_eq!(stages(&events), ["ResponseStarted"]);
    assert_eq!((&events[0]["user"], &events[0]["responseStatus"]["code"]), (&json!({}), &json!(400)));
    let message = "invalid timeout specified in the request URL - time: invalid duration \"x\"";
    assert_eq!(events[0]["responseStatus"]["message"], message);
}

#[tokio::test]
async fn deprecated_versions_are_annotated_with_the_release_that_removes_them() {
    let config = RuntimeConfig::parse(["storage.k8s.io/v1beta1=true"]).unwrap();
    let audited = Audited::with("rules: [{level: Metadata}]", |builder| builder.runtime_config(config)).await;
    for (path, deprecated, release) in [
        ("/apis/storage.k8s.io/v1beta1/volumeattributesclasses", json!("true"), json!("1.37")),
        ("/apis/storage.k8s.io/v1/volumeattributesclasses", Value::Null, Value::Null),
        ("/api/v1/endpoints", json!("true"), Value::Null),
    ] {
        let events = audited.events_of(Method::GET, path, "application/json", "").await;
        let annotations = &events.last().unwrap()["annotations"];
        assert_eq!(
            (&annotations["k8s.io/deprecated"], &annotations["k8s.io/removed-release"]),
            (&deprecated, &release)
        );
    }
}

#[tokio::test]
async fn every_response_has_an_audit_id_even_if_nothing_is_audited() {
    let client = Client::new().await;
    let id = |answer: &Answer| answer.headers["audit-id"].to_str().unwrap().to_owned();
    let (first, second) = (client.get(CONFIG_MAPS).await, client.get("/nowhere").await);
    assert_eq!((id(&first).len(), id(&second).len()), (36, 36));
    assert_ne!(id(&first), id(&second));
    assert_eq!(id(&client.ask(Method::GET, "/livez", &[("audit-id", "mine")], "").await), "mine");
}

#[tokio::test]
async fn the_audit_id_of_the_client_is_kept_and_others_get_one() {
    let audited = Audited::new("rules: [{level: None}]").await;
    let id = |response: &Response<Body>| response.headers()["audit-id"].to_str().unwrap().to_owned();
    let own = audited.send(Some(User::admin()), Request::get("/api").header("Audit-ID", "mine"), "").await;
    assert_eq!(id(&own), "mine");
    let new = audited.send(Some(User::admin()), Request::get("/api"), "").await;
    let wrong = Request::get("/api").header(header::AUTHORIZATION, "Bearer wrong");
    let other = audited.send(None, wrong, "").await;
    assert_eq!((id(&new).len(), other.status().as_u16()), (36, 401));
    assert_ne!(id(&new), id(&other));
}
