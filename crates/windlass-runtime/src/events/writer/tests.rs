//! The task in paused time, with a server whose responses are scripted.

use std::sync::Arc;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::client::Body;
use parking_lot::Mutex;

use super::*;
use crate::events::{EventType, Recorder};

/// Responds with this status, and records the requests.
#[derive(Clone)]
struct Server {
    status: Arc<Mutex<u16>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new() -> Self {
        Self { status: Arc::new(Mutex::new(201)), requests: Arc::default() }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, tower::BoxError>(server.handle(&request)) }
        });
        Client::new(service, "default")
    }

    fn handle(&self, request: &Request<Body>) -> Response<Body> {
        self.requests.lock().push(request.method().to_string());
        let code = *self.status.lock();
        let body = match code {
            200..300 => json!({ "metadata": {}, "eventTime": null }),
            _ => json!({ "status": "Failure", "code": code }),
        };
        Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock())
    }
}

fn recorder(server: &Server) -> (Recorder, EventMetrics) {
    let metrics = EventMetrics::default();
    (Recorder::with_metrics(server.client(), "foo-controller", "foo-0", metrics.clone()), metrics)
}

fn synced(recorder: &Recorder, name: &str) {
    let about = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
    recorder.record(&about, EventType::Normal, "Synced", "Sync", "done");
}

#[tokio::test(start_paused = true)]
async fn events_are_written_when_the_server_is_back() {
    let server = Server::new();
    let (recorder, metrics) = recorder(&server);
    *server.status.lock() = 503;
    synced(&recorder, "web");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(server.asked().len() >= 3);
    *server.status.lock() = 201;
    recorder.flush().await;
    assert_eq!(server.asked(), ["POST"]);
    assert_eq!((metrics.written(), metrics.dropped()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_flush_ends_even_if_the_server_never_comes_back() {
    let server = Server::new();
    let (recorder, metrics) = recorder(&server);
    *server.status.lock() = 500;
    synced(&recorder, "web");
    recorder.flush().await;
    assert_eq!(server.asked().len(), 12);
    assert_eq!((metrics.written(), metrics.dropped()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn forbidden_events_are_not_retried() {
    let server = Server::new();
    let (recorder, metrics) = recorder(&server);
    *server.status.lock() = 403;
    synced(&recorder, "web");
    recorder.flush().await;
    assert_eq!(server.asked().len(), 1);
    assert_eq!((metrics.written(), metrics.dropped()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_overflow_is_counted() {
    let server = Server::new();
    let (recorder, metrics) = recorder(&server);
    // Nothing else runs before the first await.
    for number in 0..1_500 {
        synced(&recorder, &format!("object-{number}"));
    }
    assert_eq!(metrics.dropped(), 500);
    recorder.flush().await;
    assert_eq!(metrics.written(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_count_is_written_by_itself_after_a_while() {
    let server = Server::new();
    let (recorder, _) = recorder(&server);
    for _ in 0..5 {
        synced(&recorder, "web");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(server.asked(), ["POST", "PATCH"]);
    tokio::time::sleep(Duration::from_secs(41)).await;
    assert_eq!(server.asked(), ["PATCH"]);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(server.asked().len(), 0, "the server has everything");
}

#[tokio::test(start_paused = true)]
async fn events_of_a_recorder_with_its_own_client_are_written_with_it() {
    let (server, own) = (Server::new(), Server::new());
    let (recorder, metrics) = recorder(&server);
    let client = own.client();
    let other = recorder.reporting("bar-controller").with_client(move || client.clone());
    synced(&recorder, "web");
    synced(&other, "web");
    synced(&other, "web");
    recorder.flush().await;
    assert_eq!((server.asked(), own.asked()), (vec!["POST".to_owned()], vec!["POST".to_owned()]));
    // Its series are counted with the same client.
    synced(&other, "web");
    recorder.flush().await;
    assert_eq!((server.asked(), own.asked()), (vec![], vec!["PATCH".to_owned()]));
    assert_eq!((metrics.written(), metrics.dropped()), (3, 0));
}
