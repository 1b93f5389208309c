//! Handling of one HTTP request.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde_json::json;
use tokio::time::Instant;
use tracing::debug;

use super::{
    conversion, go_duration,
    memory::{MAX_ADMISSION, MAX_CONVERSION, Memory},
    metrics::{Hook, HookCode, WebhookMetrics},
    registry::Webhooks,
    review::ReviewError,
};

/// Timeout if the API server sends none: the longest that a webhook can have.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason why a request gets no review as its response.
#[derive(Debug)]
struct Failure(StatusCode, String);

/// Handles requests. Anything but a review gets a `Status` with its code.
#[derive(Clone, Debug)]
pub(super) struct Handler {
    pub(super) webhooks: Arc<Webhooks>,
    pub(super) memory: Memory,
    pub(super) metrics: WebhookMetrics,
}

impl Handler {
    pub(super) async fn handle<B>(self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let path = request.uri().path().to_owned();
        // Unknown paths are not counted, as clients can make them up.
        if !self.webhooks.paths().any(|known| known == path) {
            return failed(StatusCode::NOT_FOUND, "no webhook at this path");
        }
        let hook = Hook { webhook: path.clone() };
        let in_flight = InFlight::begin(&self.metrics, &hook);
        let begin = Instant::now();
        let timeout = timeout(request.uri().query());
        let answer = match tokio::time::timeout(timeout, self.answer(&path, request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure(StatusCode::GATEWAY_TIMEOUT, format!("no response within {timeout:?}"))),
        };
        drop(in_flight);
        let response = match answer {
            Ok(body) => reply(StatusCode::OK, body),
            Err(Failure(code, message)) => {
                debug!(path, %code, message, "webhook request failed");
                failed(code, &message)
            }
        };
        self.metrics.latency.get_or_create(&hook).observe(begin.elapsed().as_secs_f64());
        self.metrics.requests.get_or_create(&HookCode { webhook: path, code: response.status().as_u16() }).inc();
        response
    }

    async fn answer<B>(&self, path: &str, request: Request<B>) -> Result<Vec<u8>, Failure>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        if request.method() != Method::POST {
            return Err(Failure(StatusCode::METHOD_NOT_ALLOWED, "reviews must be sent with POST".to_owned()));
        }
        if !is_json(request.headers().get(CONTENT_TYPE)) {
            let message = "the content type must be application/json".to_owned();
            return Err(Failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let (budget, limit) = match path == conversion::PATH {
            true => (&self.memory.conversions, MAX_CONVERSION),
            false => (&self.memory.admissions, MAX_ADMISSION),
        };
        let announced = request.body().size_hint().upper().and_then(|size| size.try_into().ok());
        let share = budget.take(announced.unwrap_or(limit).min(limit)).await;
        let body = match Limited::new(request.into_body(), limit).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let message = format!("the review is larger than {limit} bytes");
                return Err(Failure(StatusCode::PAYLOAD_TOO_LARGE, message));
            }
            Err(error) => return Err(Failure(StatusCode::BAD_REQUEST, format!("failed to read the body: {error}"))),
        };
        let answer = self.webhooks.answer(path, body, share, &self.metrics).await;
        answer.map_err(|error| match error {
            ReviewError::Stopping => Failure(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            _ => Failure(StatusCode::BAD_REQUEST, error.to_string()),
        })
    }
}

/// Counts a request until it is dropped, even if its connection is closed.
struct InFlight<'a>(&'a WebhookMetrics, &'a Hook);

impl<'a> InFlight<'a> {
    fn begin(metrics: &'a WebhookMetrics, hook: &'a Hook) -> Self {
        metrics.in_flight.get_or_create(hook).inc();
        Self(metrics, hook)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.get_or_create(self.1).dec();
    }
}

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    let essence = content_type.and_then(|value| value.to_str().ok()).and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// Returns the timeout of the API server, which it sends as `?timeout=10s`.
fn timeout(query: Option<&str>) -> Duration {
    let mut fields = query.unwrap_or_default().split('&').filter_map(|field| field.split_once('='));
    let timeout = fields.find_map(|(name, value)| go_duration::parse(value).filter(|_| name == "timeout"));
    timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT)
}

fn failed(code: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "code": code.as_u16(),
    });
    reply(code, status.to_string().into_bytes())
}

fn reply(code: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        metrics::Metrics,
        webhook::{Conversion, Webhook},
    };

    /// Returns the status code for a body.
    fn post(path: &str, body: Vec<u8>) -> StatusCode {
        let webhook = Webhook::<ConfigMap>::new().validate(|_| Ok::<(), std::io::Error>(()));
        let webhooks = Webhooks::new().add(webhook).conversion(Conversion::<ConfigMap>::new());
        let metrics = WebhookMetrics::register(&Metrics::new());
        let handler = Handler { webhooks: Arc::new(webhooks), memory: Memory::default(), metrics };
        let request = Request::post(path).header(CONTENT_TYPE, "application/json").body(Full::new(body.into()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(handler.handle(request.unwrap())).status()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn any_bytes_are_a_bad_request(body in prop::collection::vec(any::<u8>(), 0..100), convert in any::<bool>()) {
            let path = if convert { "/convert" } else { "/validate--v1-configmap" };
            prop_assert_eq!(post(path, body), StatusCode::BAD_REQUEST);
        }
    }

    #[test]
    fn the_api_server_says_how_long_it_waits() {
        for (query, seconds) in
            [(None, 30), (Some("timeout=10s"), 10), (Some("a=b&timeout=1m0s"), 30), (Some("timeout=-1s"), 30)]
        {
            assert_eq!(timeout(query), Duration::from_secs(seconds), "{query:?}");
        }
    }

    #[test]
    fn only_json_is_read() {
        for (value, good) in
            [("application/json", true), ("application/json; charset=utf-8", true), ("text/plain", false)]
        {
            assert_eq!(is_json(Some(&HeaderValue::from_static(value))), good, "{value}");
        }
        assert!(!is_json(None));
    }
}
