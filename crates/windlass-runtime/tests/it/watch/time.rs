//! Delays, in paused time, with scripted responses.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::BoxError;

use super::*;

const EMPTY_LIST: &str = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"10"},"items":[]}"#;
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"11"}}}
"#;

/// Response to a request.
enum Answer {
    Status(u16, Option<u64>),
    Body(&'static str),
    /// A body that continues with silence.
    Endless(&'static str),
    Hang,
}

/// Times of requests.
type Came = Arc<Mutex<Vec<Instant>>>;

/// Returns a client whose responses are a function of the number and query of a request.
fn scripted(answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static) -> (Client, Came) {
    let came = Came::default();
    let answer = Arc::new(answer);
    let service = tower::service_fn({
        let came = came.clone();
        move |request: Request<Body>| {
            let number = {
                let mut came = came.lock();
                came.push(Instant::now());
                came.len() - 1
            };
            let answer = answer(number, request.uri().query().unwrap_or_default());
            async move {
                let (text, endless) = match answer {
                    Answer::Hang => std::future::pending().await,
                    Answer::Body(text) => (text, false),
                    Answer::Endless(text) => (text, true),
                    Answer::Status(..) => ("", false),
                };
                let data = stream::iter((!text.is_empty()).then(|| Frame::data(Bytes::from_static(text.as_bytes()))));
                let silence = stream::iter(endless.then_some(())).then(|()| std::future::pending());
                let body = StreamBody::new(data.chain(silence).map(Ok::<_, BoxError>));
                let mut response = Response::builder();
                if let Answer::Status(code, retry_after) = answer {
                    response = response.status(StatusCode::from_u16(code).unwrap());
                    if let Some(seconds) = retry_after {
                        response = response.header(http::header::RETRY_AFTER, seconds);
                    }
                }
                Ok::<_, BoxError>(response.body(body).unwrap())
            }
        }
    });
    (Client::new(service, "default"), came)
}

/// Returns the time between requests, while a reflector runs.
async fn gaps(client: Client, came: Came, streaming_list: bool, lasts: Duration) -> Vec<f64> {
    let options = WatchOptions { streaming_list, ..WatchOptions::of::<ConfigMap>(&(), Scope::all()) };
    let (sender, mut changes) = mpsc::channel(16);
    let task = tokio::spawn(watch::run::<ConfigMap>(client, options, sender));
    let _ = tokio::time::timeout(lasts, async { while changes.recv().await.is_some() {} }).await;
    task.abort();
    let came = came.lock();
    came.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
}

/// Checks that delays double from 0.8 s to 30 s, each stretched by up to the same amount again.
fn assert_grows(gaps: &[f64]) {
    assert!(gaps.len() >= 7, "{gaps:?}");
    for (number, gap) in gaps.iter().enumerate() {
        let base = (0.8 * 2f64.powi(number as i32)).min(30.0);
        assert!((base - 0.01..=base * 2.0 + 0.01).contains(gap), "wait {number} of {gap} s: {gaps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_grow_while_lists_fail() {
    for code in [403, 500, 503] {
        let (client, came) = scripted(move |_, _| Answer::Status(code, None));
        assert_grows(&gaps(client, came, false, Duration::from_secs(300)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn waits_grow_while_watches_fail_although_lists_succeed() {
    // Every fifth error fetches the state again, which must not reset the delays.
    let (client, came) = scripted(|_, query| match query.contains("watch=true") {
        true => Answer::Status(500, None),
        false => Answer::Body(EMPTY_LIST),
    });
    let gaps = gaps(client, came, false, Duration::from_secs(300)).await;
    let waits: Vec<_> = gaps.into_iter().filter(|gap| *gap > 0.1).collect();
    assert_grows(&waits);
}

#[tokio::test(start_paused = true)]
async fn waits_grow_while_watches_end_at_once() {
    let (client, came) = scripted(|number, _| if number == 0 { Answer::Body(EMPTY_LIST) } else { Answer::Body("") });
    let gaps = gaps(client, came, false, Duration::from_secs(300)).await;
    assert_grows(&gaps[1..]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected() {
    let (client, came) = scripted(|number, _| match number {
        0 => Answer::Status(429, Some(20)),
        1 => Answer::Body(EMPTY_LIST),
        2 => Answer::Status(503, Some(40)),
        _ => Answer::Hang,
    });
    let gaps = gaps(client, came, false, Duration::from_secs(120)).await;
    assert!((20.0..20.1).contains(&gaps[0]) && (40.0..40.1).contains(&gaps[2]), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_or_a_watch_that_hangs_is_abandoned() {
    let (client, came) = scripted(|number, _| match number {
        0 | 2.. => Answer::Hang,
        _ => Answer::Body(EMPTY_LIST),
    });
    let gaps = gaps(client, came, false, Duration::from_secs(1400)).await;
    assert!((60.0..63.0).contains(&gaps[0]), "a list gets a minute: {gaps:?}");
    assert!((330.0..633.0).contains(&gaps[2]), "a watch gets as long as it was to last: {gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_served_is_polled_at_most_every_two_seconds() {
    let (client, came) = scripted(|_, _| Answer::Status(404, None));
    let gaps = gaps(client, came, false, Duration::from_secs(60)).await;
    assert!(gaps[0] <= 0.26 && gaps.len() >= 30, "{gaps:?}");
    assert!(gaps[4..].iter().all(|gap| (1.7..2.01).contains(gap)), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_state_whose_end_is_not_announced_is_listed_instead() {
    let (client, _) = scripted(|_, query| match query.contains("watch=true") {
        true => Answer::Endless(""),
        false => Answer::Body(EMPTY_LIST),
    });
    let options = WatchOptions { streaming_list: true, ..WatchOptions::of::<ConfigMap>(&(), Scope::all()) };
    let began = Instant::now();
    let mut reflected = Reflected::<ConfigMap>::start(client, options);
    assert!(matches!(reflected.next().await, Change::Replace { revision: 10, .. }));
    assert!(began.elapsed() < Duration::from_secs(31));
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_bookmarks_stop_is_restarted() {
    let (client, came) = scripted(|number, _| match number {
        0 => Answer::Body(EMPTY_LIST),
        _ => Answer::Endless(BOOKMARK),
    });
    let gaps = gaps(client, came, false, Duration::from_secs(600)).await;
    assert!(gaps[1..].iter().all(|gap| (180.0..180.1).contains(gap)) && gaps.len() >= 3, "{gaps:?}");
}
