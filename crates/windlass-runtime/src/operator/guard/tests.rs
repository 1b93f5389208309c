use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// An API server that knows tokens: the user of `NAME-token` is `NAME`, and `reader` may get `/metrics`.
#[derive(Default)]
struct Reviewer {
    /// Numbers of requests by resource.
    reviews: Mutex<BTreeMap<String, usize>>,
    /// Whether requests never get a response.
    hangs: AtomicBool,
    /// Whether all requests fail.
    fails: AtomicBool,
}

impl Reviewer {
    fn guard(self: &Arc<Self>) -> Guard {
        let reviewer = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let reviewer = reviewer.clone();
            async move { Ok::<_, std::convert::Infallible>(reviewer.answer(request).await) }
        });
        Guard::new(&Client::new(service, "default"))
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let resource = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        *self.reviews.lock().entry(resource.clone()).or_default() += 1;
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap();
        let (code, answer) = if self.fails.load(Ordering::Relaxed) {
            (500, json!({ "kind": "Status", "status": "Failure", "code": 500, "message": "no quorum" }))
        } else {
            (201, with_status(review, &resource))
        };
        let status = StatusCode::from_u16(code).unwrap();
        Response::builder().status(status).body(Body::from(answer.to_string().into_bytes())).unwrap()
    }

    fn count(&self, resource: &str) -> usize {
        self.reviews.lock().get(resource).copied().unwrap_or_default()
    }
}

fn with_status(mut review: Value, resource: &str) -> Value {
    review["status"] = match resource {
        "tokenreviews" => match review["spec"]["token"].as_str().unwrap().strip_suffix("-token") {
            Some(name) => {
                let user = json!({ "username": name, "uid": "1", "groups": ["all"], "extra": { "k": ["v"] } });
                json!({ "authenticated": true, "user": user })
            }
            None => json!({ "authenticated": false, "error": "invalid bearer token" }),
        },
        _ => {
            let spec = &review["spec"];
            assert_eq!(
                (&spec["uid"], &spec["groups"], &spec["extra"]),
                (&json!("1"), &json!(["all"]), &json!({ "k": ["v"] }))
            );
            let attributes = &spec["nonResourceAttributes"];
            let allowed = spec["user"] == "reader" && *attributes == json!({ "path": "/metrics", "verb": "get" });
            json!({ "allowed": allowed })
        }
    };
    review
}

fn key(token: &str) -> ReviewKey {
    ReviewKey { token: token.to_owned(), verb: "get".to_owned(), path: "/metrics".to_owned() }
}

async fn check(guard: &Guard, authorization: Option<&str>) -> Verdict {
    check_path(guard, authorization, "/metrics").await
}

async fn check_path(guard: &Guard, authorization: Option<&str>, path: &str) -> Verdict {
    let mut headers = HeaderMap::new();
    if let Some(value) = authorization {
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    guard.check(&Method::GET, path, &headers).await
}

#[tokio::test]
async fn the_api_server_decides_who_may_send_what() {
    let reviewer = Arc::<Reviewer>::default();
    let guard = reviewer.guard();
    for credentials in [None, Some("Basic cmVhZGVyOnNlY3JldA=="), Some("Bearer"), Some("Bearer  "), Some("")] {
        assert_eq!(check(&guard, credentials).await, Verdict::Unauthorized, "{credentials:?}");
    }
    assert_eq!(reviewer.count("tokenreviews"), 0, "there is nothing to review");
    assert_eq!(check(&guard, Some("Bearer wrong")).await, Verdict::Unauthorized);
    assert_eq!(check(&guard, Some("Bearer guest-token")).await, Verdict::Forbidden("guest".to_owned()));
    assert_eq!(check(&guard, Some("bearer reader-token")).await, Verdict::Permitted);
    let headers: HeaderMap =
        [(header::AUTHORIZATION, HeaderValue::from_static("Bearer reader-token"))].into_iter().collect();
    assert_eq!(guard.check(&Method::PUT, "/metrics", &headers).await, Verdict::Forbidden("reader".to_owned()));
    assert_eq!(
        check_path(&guard, Some("Bearer reader-token"), "/debug/state").await,
        Verdict::Forbidden("reader".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn verdicts_are_remembered_for_a_while() {
    for (token, lifetime) in [("reader-token", PERMITTED), ("guest-token", REJECTED), ("wrong", REJECTED)] {
        let reviewer = Arc::<Reviewer>::default();
        let guard = reviewer.guard();
        let header = format!("Bearer {token}");
        let first = check(&guard, Some(&header)).await;
        tokio::time::advance(lifetime - Duration::from_millis(1)).await;
        assert_eq!(check(&guard, Some(&header)).await, first);
        assert_eq!(reviewer.count("tokenreviews"), 1, "{token}");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(check(&guard, Some(&header)).await, first);
        assert_eq!(reviewer.count("tokenreviews"), 2, "{token}");
    }
}

#[tokio::test]
async fn the_number_and_size_of_remembered_verdicts_is_limited() {
    let reviewer = Arc::<Reviewer>::default();
    let guard = reviewer.guard();
    for number in 0..=MAX_REMEMBERED {
        check(&guard, Some(&format!("Bearer {number}"))).await;
        assert!(guard.rejected.lock().len() <= MAX_REMEMBERED);
    }
    for number in 0..=MAX_REMEMBERED {
        guard.remember(key(&number.to_string()), &Verdict::Permitted);
        assert!(guard.permitted.lock().len() <= MAX_REMEMBERED);
    }
    assert_eq!(guard.known(&key(&MAX_REMEMBERED.to_string())), Some(Verdict::Permitted), "the newest is kept");
    let length = MAX_LENGTH - "/metrics".len();
    for (length, remembered) in [(length - 1, true), (length, true), (length + 1, false)] {
        let header = format!("Bearer {}", "x".repeat(length));
        let before = reviewer.count("tokenreviews");
        check(&guard, Some(&header)).await;
        check(&guard, Some(&header)).await;
        assert_eq!(reviewer.count("tokenreviews") - before == 1, remembered, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_decide_permits_nothing_and_delays_nobody_for_long() {
    let reviewer = Arc::<Reviewer>::default();
    let guard = reviewer.guard();
    reviewer.fails.store(true, Ordering::Relaxed);
    assert_eq!(check(&guard, Some("Bearer reader-token")).await, Verdict::Undecided);
    reviewer.fails.store(false, Ordering::Relaxed);
    assert_eq!(check(&guard, Some("Bearer reader-token")).await, Verdict::Permitted, "failures are not remembered");

    reviewer.hangs.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let tokens: Vec<String> = (0..=MAX_REVIEWS).map(|number| format!("Bearer {number}-token")).collect();
    let verdicts = futures_util::future::join_all(tokens.iter().map(|token| check(&guard, Some(token)))).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Undecided), "{verdicts:?}");
    assert_eq!(began.elapsed(), LIMIT, "requests that wait for others are rejected with them");
    assert_eq!(reviewer.count("tokenreviews"), 2 + MAX_REVIEWS);

    reviewer.hangs.store(false, Ordering::Relaxed);
    assert_eq!(check(&guard, Some("Bearer guest-token")).await, Verdict::Forbidden("guest".to_owned()));
}

#[tokio::test]
async fn rejected_tokens_do_not_evict_permitted_ones() {
    let reviewer = Arc::<Reviewer>::default();
    let guard = reviewer.guard();
    assert_eq!(check(&guard, Some("Bearer reader-token")).await, Verdict::Permitted);
    for number in 0..2 * MAX_REMEMBERED {
        check(&guard, Some(&format!("Bearer {number}"))).await;
    }
    reviewer.fails.store(true, Ordering::Relaxed);
    assert_eq!(check(&guard, Some("Bearer reader-token")).await, Verdict::Permitted);
}

#[tokio::test(start_paused = true)]
async fn reviews_of_unknown_tokens_do_not_hold_up_those_of_permitted_ones() {
    let reviewer = Arc::<Reviewer>::default();
    let guard = Arc::new(reviewer.guard());
    assert_eq!(check(&guard, Some("Bearer reader-token")).await, Verdict::Permitted);
    tokio::time::advance(PERMITTED).await;
    reviewer.hangs.store(true, Ordering::Relaxed);
    let flood: Vec<_> = (0..10 * MAX_REVIEWS)
        .map(|number| {
            let guard = guard.clone();
            tokio::spawn(async move { check(&guard, Some(&format!("Bearer {number}"))).await })
        })
        .collect();
    // All that can begin have begun.
    tokio::time::advance(Duration::from_millis(1)).await;
    while reviewer.count("tokenreviews") < 1 + MAX_REVIEWS {
        tokio::task::yield_now().await;
    }
    reviewer.hangs.store(false, Ordering::Relaxed);
    assert_eq!(check(&guard, Some("Bearer reader-token")).await, Verdict::Permitted);
    assert!(flood.iter().all(|one| !one.is_finished()), "the others still wait");
}
