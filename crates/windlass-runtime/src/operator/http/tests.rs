use hyper_util::{client::legacy, rt::TokioExecutor};
use tokio::task::JoinSet;
use tracing_subscriber::{EnvFilter, Registry, reload};

use super::*;

/// A server of the log level, and a client of it.
struct Served {
    address: SocketAddr,
    client: legacy::Client<legacy::connect::HttpConnector, Full<Bytes>>,
    _filter: reload::Layer<EnvFilter, Registry>,
    _server: JoinSet<()>,
}

impl Served {
    async fn start(address: &str) -> Self {
        Self::with(address, Pages::default()).await
    }

    async fn with(address: &str, pages: Pages) -> Self {
        let (filter, level) = LogLevel::reloadable("info").unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        let pages = Pages { log_level: Some(level), ..pages };
        let mut server = JoinSet::new();
        server.spawn(pages.serve(listener, None, Shutdown::new()));
        let client = legacy::Client::builder(TokioExecutor::new()).build_http();
        Self { address, client, _filter: filter, _server: server }
    }

    async fn send(&self, method: Method, path: &str, body: &str) -> (u16, String, Option<String>) {
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let (head, body) = self.client.request(request).await.unwrap().into_parts();
        let allow = head.headers.get(header::ALLOW).map(|value| value.to_str().unwrap().to_owned());
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap(), allow)
    }

    async fn level(&self) -> (u16, String) {
        let (status, text, _) = self.send(Method::GET, "/debug/log-level", "").await;
        (status, text)
    }

    async fn set(&self, level: &str) -> (u16, String) {
        let (status, text, _) = self.send(Method::PUT, "/debug/log-level", level).await;
        (status, text)
    }
}

#[tokio::test]
async fn the_log_level_is_shown_and_changed() {
    let served = Served::start("127.0.0.1:0").await;
    assert_eq!(served.level().await, (200, "info\n".to_owned()));
    assert_eq!(served.set("debug\n").await, (200, "debug\n".to_owned()));
    assert_eq!(served.level().await, (200, "debug\n".to_owned()));
    let (status, _, allow) = served.send(Method::POST, "/debug/log-level", "warn").await;
    assert_eq!((status, allow.as_deref()), (405, Some("GET, HEAD, PUT")));
    let (status, _, allow) = served.send(Method::PUT, "/debug/state", "warn").await;
    assert_eq!((status, allow.as_deref()), (405, Some("GET, HEAD")));
    assert_eq!(served.level().await, (200, "debug\n".to_owned()));
}

#[tokio::test]
async fn bad_filters_are_rejected_with_the_reason() {
    let served = Served::start("127.0.0.1:0").await;
    for (filter, expected) in [("info,foo=loud", "invalid log level \"info,foo=loud\""), ("\n", "no log level")] {
        let (status, text) = served.set(filter).await;
        assert_eq!(status, 400, "{text}");
        assert!(text.starts_with(expected), "{text}");
    }
    for (length, expected) in [(BODY_BYTES - 1, 200), (BODY_BYTES, 200), (BODY_BYTES + 1, 400)] {
        let filter = format!("{:length$}", "warn");
        assert_eq!(served.set(&filter).await.0, expected, "{length}");
    }
    assert_eq!(served.level().await, (200, "warn\n".to_owned()));
}

#[tokio::test]
async fn other_machines_cannot_change_the_log_level_over_plain_http() {
    let served = Served::start("0.0.0.0:0").await;
    let (status, text) = served.set("trace").await;
    assert_eq!(status, 403);
    assert!(text.contains("--metrics-secure"), "{text}");
    assert_eq!(served.level().await.0, 403);
}

#[cfg(feature = "pprof")]
#[tokio::test]
async fn one_profile_at_a_time_is_recorded_for_as_long_as_the_request_says() {
    use std::future::poll_fn;

    const PATH: &str = "/debug/pprof/profile";
    let _alone = crate::operator::profile::tests::RECORDING.lock().await;
    let profiler = Profiler::new();
    let served = Served::with("127.0.0.1:0", Pages { profiler: Some(profiler.clone()), ..Pages::default() }).await;
    for seconds in ["0", "61", "1s"] {
        let (status, text, _) = served.send(Method::GET, &format!("{PATH}?seconds={seconds}"), "").await;
        assert!(status == 400 && text.contains("expected 1 to 60"), "{seconds}: {status} {text}");
    }
    let (status, _, allow) = served.send(Method::POST, PATH, "").await;
    assert_eq!((status, allow.as_deref()), (405, Some("GET, HEAD")));
    {
        let mut recording = std::pin::pin!(profiler.record("seconds=60"));
        let began = poll_fn(|cx| std::task::Poll::Ready(recording.as_mut().poll(cx).is_pending())).await;
        assert!(began, "it takes a minute");
        let (status, text, _) = served.send(Method::GET, &format!("{PATH}?seconds=1"), "").await;
        assert_eq!((status, text.trim()), (409, "another profile is being recorded"));
    }
    let request = Request::get(format!("http://{}{PATH}?seconds=1", served.address));
    let response = served.client.request(request.body(Full::default()).unwrap()).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()[header::CONTENT_TYPE]),
        (200, &HeaderValue::from_static("application/octet-stream"))
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body[..2], [0x1f, 0x8b], "it is compressed");
}

#[cfg(feature = "pprof")]
#[tokio::test]
async fn profiles_are_for_this_machine_only_and_only_on_request() {
    let profiling = || Pages { profiler: Some(Profiler::new()), ..Pages::default() };
    let path = "/debug/pprof/profile?seconds=0";
    let (status, text, _) = Served::with("0.0.0.0:0", profiling()).await.send(Method::GET, path, "").await;
    assert!(status == 403 && text.contains("--metrics-secure"), "{status} {text}");
    let (status, ..) = Served::start("127.0.0.1:0").await.send(Method::GET, path, "").await;
    assert_eq!(status, 404, "without --profiling");
}
