//! Rate limit, send condition, metrics and tracing of requests.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        histogram::Histogram,
    },
};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};
use tracing::{Instrument as _, field::Empty};

use super::{
    SendCondition,
    rate::{Limiter, Rate},
    time_limit::Waits,
};
use crate::metrics::Metrics;

/// client-go's bounds.
const DURATIONS: [f64; 11] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Requested {
    code: String,
    host: Arc<str>,
    method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lasted {
    host: Arc<str>,
    verb: String,
}

#[derive(Clone)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(DURATIONS)
    }
}

/// Metrics of a client.
#[derive(Clone)]
pub(super) struct RequestMetrics {
    requests: Family<Requested, Counter>,
    durations: Option<Family<Lasted, Histogram, Durations>>,
}

impl RequestMetrics {
    pub(super) fn register(metrics: &Metrics, durations: bool) -> Self {
        let numbers =
            Self { requests: Family::default(), durations: durations.then(|| Family::new_with_constructor(Durations)) };
        metrics.register(|registry| {
            let help = "Number of HTTP requests, by status code, method and host";
            registry.register("rest_client_requests", help, numbers.requests.clone());
            if let Some(durations) = &numbers.durations {
                let help = "Time from a request to the head of its response, by verb and host";
                registry.register("rest_client_request_duration_seconds", help, durations.clone());
            }
        });
        numbers
    }
}

/// Marks a request that skips the rate limit, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct SkipRateLimit;

/// Layer of [`ObserveService`].
#[derive(Clone)]
pub(super) struct ObserveLayer {
    metrics: Option<RequestMetrics>,
    limiter: Option<Limiter>,
}

#[derive(Clone)]
pub(super) struct ObserveService<S> {
    inner: S,
    observe: ObserveLayer,
}

impl ObserveLayer {
    pub(super) fn new(metrics: Option<RequestMetrics>, rate: Option<Rate>) -> Self {
        Self { metrics, limiter: rate.map(Limiter::new) }
    }
}

impl<S> Layer<S> for ObserveLayer {
    type Service = ObserveService<S>;

    fn layer(&self, inner: S) -> ObserveService<S> {
        ObserveService { inner, observe: self.clone() }
    }
}

impl<S, A, B> Service<Request<A>> for ObserveService<S>
where
    S: Service<Request<A>, Response = Response<B>, Error = BoxError, Future: Send + 'static> + Send,
    B: Send + 'static,
    A: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let method = request.method().to_string();
        let host: Arc<str> = request.uri().authority().map_or("", |authority| authority.as_str()).into();
        let span = tracing::debug_span!(
            "request",
            otel.kind = "client",
            http.method = %method,
            http.path = request.uri().path(),
            http.status_code = Empty,
        );
        let ObserveLayer { metrics, limiter } = self.observe.clone();
        let limiter = limiter.filter(|_| request.extensions().get::<SkipRateLimit>().is_none());
        let (condition, waits) = (SendCondition::of(&request), Waits::of(&request));
        // Nothing is sent before it is awaited.
        let sending = self.inner.call(request);
        let observing = async move {
            if let Some(limiter) = limiter {
                let _waiting = waits.map(|waits| waits.begin());
                limiter.turn().await;
            }
            SendCondition::check(condition.as_ref())?;
            let begin = Instant::now();
            let answer = sending.await;
            let code = match &answer {
                Ok(response) => {
                    tracing::Span::current().record("http.status_code", response.status().as_u16());
                    response.status().as_str().to_owned()
                }
                Err(_) => "<error>".to_owned(),
            };
            if let Some(metrics) = metrics {
                if let Some(durations) = metrics.durations {
                    let lasted = Lasted { host: host.clone(), verb: method.clone() };
                    durations.get_or_create(&lasted).observe(begin.elapsed().as_secs_f64());
                }
                metrics.requests.get_or_create(&Requested { code, host, method }).inc();
            }
            answer
        };
        Box::pin(observing.instrument(span))
    }
}
