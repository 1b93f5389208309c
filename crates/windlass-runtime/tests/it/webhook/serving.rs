use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass_runtime::{
    metrics::Metrics,
    webhook::{CertResolver, Certificates, Conversion, Denied, Request, ServeError, Webhook, WebhookOptions, Webhooks},
};

use super::{
    Authority, Caller, Served,
    caller::Connection,
    foo::{Foo, admission, foo, old},
};
use crate::cluster::eventually;

const VALIDATE: &str = "/validate-webhook-windlass-example-v1-foo";

fn review() -> Value {
    admission("CREATE", foo(json!({})), Value::Null)
}

fn accepting() -> Webhooks {
    let webhook = Webhook::<Foo>::new().validate(|_: &Request<Foo>| Ok::<_, Denied>(()));
    Webhooks::new().add(webhook).conversion(Conversion::<Foo>::new().spoke::<old::Foo>())
}

#[tokio::test]
async fn both_versions_of_http_are_served_and_counted() {
    let (served, caller) = Served::with_certificate(accepting()).await;
    for caller in [caller.clone(), caller.http1()] {
        let (status, answer) = caller.post(&format!("{VALIDATE}?timeout=10s"), &review()).await;
        assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(true)));
    }
    let metrics = served.metrics.encode();
    for line in [
        "controller_runtime_webhook_requests_total{webhook=\"/validate-webhook-windlass-example-v1-foo\",code=\"200\"} 2",
        "controller_runtime_webhook_requests_total{webhook=\"/convert\",code=\"500\"} 0",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/validate-webhook-windlass-example-v1-foo\"} 0",
        "controller_runtime_webhook_latency_seconds_count{webhook=\"/validate-webhook-windlass-example-v1-foo\"} 2",
        "controller_runtime_webhook_panics_total 0",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn a_server_without_http_2_serves_clients_that_offer_it() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("127.0.0.1");
    let resolver = CertResolver::new();
    resolver.set_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let mut options = WebhookOptions::new(Certificates::Given(resolver));
    options.http2 = false;
    let served = Served::start(accepting(), options).await;
    for (protocols, spoken) in [(&["h2", "http/1.1"][..], true), (&["http/1.1"], true), (&[], true), (&["h2"], false)] {
        let caller = Caller::new(served.address, &authority.pem()).offering(protocols);
        let Ok((mut connection, _)) = caller.connect().await else {
            assert!(!spoken, "{protocols:?}");
            continue;
        };
        assert!(spoken && matches!(connection, Connection::Http1(_)), "{protocols:?}");
        for _ in 0..2 {
            let (status, answer) = connection.post(VALIDATE, &review()).await.unwrap();
            assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(true)));
        }
    }
}

#[tokio::test]
async fn a_body_that_is_not_a_review_is_rejected() {
    let (_served, caller) = Served::with_certificate(accepting()).await;
    let (mut connection, _) = caller.connect().await.unwrap();
    let json = Some("application/json");
    let large = vec![b' '; (7 << 20) + 1];
    let cases = [
        (Method::GET, VALIDATE, json, Vec::new(), 405),
        (Method::POST, "/elsewhere", json, Vec::new(), 404),
        (Method::POST, VALIDATE, Some("text/plain"), Vec::new(), 415),
        (Method::POST, VALIDATE, None, Vec::new(), 415),
        (Method::POST, VALIDATE, json, Vec::new(), 400),
        (Method::POST, VALIDATE, json, b"{".to_vec(), 400),
        (Method::POST, VALIDATE, json, vec![b'['; 100_000], 400),
        (Method::POST, "/convert", json, review().to_string().into_bytes(), 400),
        (Method::POST, "/convert", json, vec![0xff], 400),
        (Method::POST, VALIDATE, json, large, 413),
    ];
    for (method, path, content_type, body, expected) in cases {
        let shown = format!("{method} {path} {content_type:?} of {} bytes", body.len());
        let (status, answer) = connection.send(method, path, content_type, body).await.unwrap();
        assert_eq!((status.as_u16(), &answer["kind"]), (expected, &json!("Status")), "{shown}");
    }
    let (status, _) = connection.post(VALIDATE, &review()).await.unwrap();
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_handler_times_out_when_the_api_server_does() {
    let webhook = Webhook::<Foo>::new().validate_async(|_| std::future::pending::<Result<(), Denied>>());
    let (served, caller) = Served::with_certificate(Webhooks::new().add(webhook)).await;
    let (status, answer) = caller.post(&format!("{VALIDATE}?timeout=20ms"), &review()).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(answer["message"], "no response within 20ms");
    assert!(
        served.metrics.encode().contains("requests_in_flight{webhook=\"/validate-webhook-windlass-example-v1-foo\"} 0")
    );
}

#[tokio::test]
async fn open_requests_finish_when_the_server_drains() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let webhook = Webhook::<Foo>::new().validate_async({
        let (begun, go) = (begun.clone(), go.clone());
        move |_| {
            let (begun, go) = (begun.clone(), go.clone());
            async move {
                begun.notify_one();
                go.notified().await;
                Ok::<(), Denied>(())
            }
        }
    });
    let (served, caller) = Served::with_certificate(Webhooks::new().add(webhook)).await;
    let asking = tokio::spawn({
        let caller = caller.clone();
        async move { caller.post(VALIDATE, &review()).await }
    });
    begun.notified().await;
    served.shutdown.drain();
    eventually("new connections are rejected", async || caller.connect().await.is_err().then_some(())).await;
    go.notify_one();
    let (status, answer) = asking.await.unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(true)));
    served.ended().await;
}

#[tokio::test]
async fn an_abort_does_not_wait() {
    let begun = Arc::new(Notify::new());
    let webhook = Webhook::<Foo>::new().validate_async({
        let begun = begun.clone();
        move |_| {
            begun.notify_one();
            std::future::pending::<Result<(), Denied>>()
        }
    });
    let (served, caller) = Served::with_certificate(Webhooks::new().add(webhook)).await;
    let (mut connection, _) = caller.connect().await.unwrap();
    let asking = tokio::spawn(async move { connection.post(VALIDATE, &review()).await });
    begun.notified().await;
    served.shutdown.abort();
    served.ended().await;
    assert!(asking.await.unwrap().is_err());
}

#[tokio::test]
async fn with_a_client_ca_unknown_clients_are_not_answered() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let (certificate, key) = servers.issue("127.0.0.1");
    let resolver = CertResolver::new();
    resolver.set_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let mut options = WebhookOptions::new(Certificates::Given(resolver));
    options.client_authority = Some(clients.pem().into_bytes());
    let served = Served::start(accepting(), options).await;

    for (identity, welcome) in
        [(Some(clients.issue("api")), true), (Some(strangers.issue("api")), false), (None, false)]
    {
        let caller = Caller::with_identity(served.address, &servers.pem(), identity);
        // With TLS 1.3, a client learns of the rejection with its first response.
        let answer = async {
            let (mut connection, _) = caller.connect().await?;
            connection.post(VALIDATE, &review()).await
        };
        assert_eq!(answer.await.is_ok(), welcome);
    }
}

#[test]
fn webhooks_of_one_kind_have_names_of_their_own() {
    let webhook = || Webhook::<Foo>::new().validate(|_: &Request<Foo>| Ok::<_, Denied>(()));
    let webhooks = Webhooks::new().add(webhook()).add(webhook().validate_path("/Strict/foos"));
    let names: Vec<_> = webhooks.describe().into_iter().map(|one| one.name).collect();
    assert_eq!(
        names,
        ["validate.foos.v1.webhook.windlass.example", "strict-foos.validate.foos.v1.webhook.windlass.example"]
    );
}

#[tokio::test]
async fn two_webhooks_at_one_path_or_of_one_name_are_an_error() {
    let options = || WebhookOptions::new(Certificates::Given(CertResolver::new()));
    let webhook = || Webhook::<Foo>::new().validate(|_: &Request<Foo>| Ok::<_, Denied>(()));
    let twice = Webhooks::new().add(webhook()).add(webhook()).bind(options(), &Metrics::new()).await;
    assert!(matches!(twice, Err(ServeError::Duplicate(path)) if path == VALIDATE));
    // Paths that result in the same name.
    let twice = Webhooks::new().add(webhook().validate_path("/a/b")).add(webhook().validate_path("/a-b"));
    let twice = twice.bind(options(), &Metrics::new()).await;
    assert!(matches!(twice, Err(ServeError::Duplicate(name)) if name.starts_with("a-b.validate.foos.v1.")));
    let conversions = Webhooks::new().conversion(Conversion::<Foo>::new()).conversion(Conversion::<Foo>::new());
    assert!(matches!(conversions.bind(options(), &Metrics::new()).await, Err(ServeError::Duplicate(_))));
}
