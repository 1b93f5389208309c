//! Requests that are dropped at every await point, as by a client that disconnects or a timeout, leave a consistent
//! state.
//!
//! Time is paused and the store is slow, so that the same await points come in the same order in every run.

pub(crate) mod invariants;
mod requests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use windlass_store::Store as _;

use self::requests::{Ask, CASES, Case};
use crate::{
    client::{Client, config_map},
    test_store::{DELAY, TestStore, polled},
};

/// More await points than any request has.
const MAX_POLLS: usize = 300;

/// Ways in which a request ends early.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// Its future is dropped after a number of polls.
    Polls,
    /// Its `timeout` parameter is a little longer than a number of steps of the store.
    Timeout,
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_at_any_await_point_leaves_a_consistent_state() {
    for case in CASES {
        cut_everywhere(case, Cut::Polls).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_times_out_at_any_await_point_leaves_a_consistent_state() {
    for case in CASES {
        cut_everywhere(case, Cut::Timeout).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_completes_the_writes_of_dropped_requests() {
    let store = Arc::new(TestStore::slow());
    let client = Client::over(store.clone()).await;
    invariants::create_quota(&client).await;
    settle().await;
    let path = format!("/api/v1/namespaces/{}/configmaps", requests::LIMITED);
    let create = post(&path, &config_map("a"));
    // Polled until the request waits for its write, which has not begun to charge the quota.
    assert!(polled(Box::pin(client.send(create)), 2).await.is_none());
    assert_eq!(store.get("/core/configmaps/limited/a").await.unwrap(), None);
    client.server.finish_writes().await;
    assert!(store.get("/core/configmaps/limited/a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_panics_is_answered_and_leaves_nothing_behind() {
    let store = Arc::new(TestStore::slow());
    let client = Client::over(store.clone()).await;
    invariants::create_quota(&client).await;
    store.set_panics(true);
    let services = format!("/api/v1/namespaces/{}/services", requests::LIMITED);
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let answer = client.post(&services, &service).await;
    let text = "This request caused apiserver to panic. Look in the logs for details.\n";
    assert_eq!((answer.code, &*answer.raw), (500, text.as_bytes()));
    store.set_panics(false);
    invariants::check(&client, 0).await;
    client.post(&services, &service).await.expect(201);
    invariants::check(&client, 0).await;
}

/// Sends the request of a case again and again, cut one await point later each time, until it completes.
async fn cut_everywhere(case: &Case, cut: Cut) {
    let client = Client::over(Arc::new(TestStore::slow())).await;
    invariants::create_quota(&client).await;
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "collection"}})).await.expect(201);
    for attempt in 0..MAX_POLLS {
        let mut asks = (case.requests)(attempt);
        let last = asks.pop().unwrap();
        for ask in asks {
            let answer = client.send(request(&ask, None)).await;
            assert!(answer.status().is_success(), "{} {}: {}", ask.method, ask.path, answer.status());
        }
        let answer = match cut {
            Cut::Polls => polled(Box::pin(client.send(request(&last, None))), attempt).await,
            Cut::Timeout => {
                let timeout = DELAY * u32::try_from(attempt).unwrap() + DELAY / 2;
                Some(client.send(request(&last, Some(timeout))).await).filter(|answer| answer.status() != 504)
            }
        };
        settle().await;
        invariants::check(&client, attempt + 1).await;
        if let Some(answer) = answer {
            assert!(answer.status().is_success() || answer.status() == 409, "{}", answer.status());
            return;
        }
    }
    panic!("{}: no answer after {MAX_POLLS} polls", case.name);
}

/// Waits until everything that requests have started has ended.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

fn post(path: &str, body: &Value) -> Request<Full<Bytes>> {
    Request::post(path).header("content-type", "application/json").body(Full::new(body.to_string().into())).unwrap()
}

fn request(ask: &Ask, timeout: Option<Duration>) -> Request<Full<Bytes>> {
    let mut path = ask.path.clone();
    if let Some(timeout) = timeout {
        path += if path.contains('?') { "&" } else { "?" };
        path += &format!("timeout={}ms", timeout.as_millis());
    }
    let body = if ask.body == Value::Null { String::new() } else { ask.body.to_string() };
    let request = Request::builder().method(&ask.method).uri(path).header("content-type", ask.media);
    request.body(Full::new(body.into())).unwrap()
}
