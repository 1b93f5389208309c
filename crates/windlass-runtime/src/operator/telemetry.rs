//! Export of traces to a collector: OTLP, in protobuf over HTTP.
//!
//! Enabled by `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`. The other variables of
//! OpenTelemetry, such as those of headers, timeouts and sampling, have their usual meaning. If the collector cannot be
//! reached, spans are lost, but work continues.

use std::{fmt, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{Config, client::ConfigExt as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tokio::runtime::Handle;
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use super::OperatorError;

/// Variables that enable traces.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// Time to send the last spans.
const LAST_SPANS: Duration = Duration::from_secs(3);
/// Timeout of requests to the collector.
const ANSWER: Duration = Duration::from_secs(10);
/// Limit of response bodies; collectors send little.
const ANSWER_BYTES: usize = 1 << 20;

/// Exporter of spans.
pub(super) struct Telemetry {
    provider: SdkTracerProvider,
    operator: String,
}

impl Telemetry {
    /// Returns the exporter that the environment configures, if any. Must be called within a tokio runtime.
    pub(super) fn from_environment(operator: &str) -> Result<Option<Self>, OperatorError> {
        let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if ENDPOINTS.iter().any(set) { Self::new(operator, None).map(Some) } else { Ok(None) }
    }

    fn new(operator: &str, endpoint: Option<&str>) -> Result<Self, OperatorError> {
        let unusable = |error: &dyn fmt::Display| {
            OperatorError::Setting(format!("failed to set up the export of traces: {error}"))
        };
        let mut exporter =
            SpanExporter::builder().with_http().with_http_client(Sender::new().map_err(|error| unusable(&error))?);
        if let Some(endpoint) = endpoint {
            exporter = exporter.with_endpoint(endpoint);
        }
        let exporter = exporter.build().map_err(|error| unusable(&error))?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(operator.to_owned());
        }
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        Ok(Self { provider, operator: operator.to_owned() })
    }

    /// Returns the subscriber layer that exports spans: all spans of the runtime, including requests, and those of
    /// other crates from level `info`.
    pub(super) fn layer<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let tracer = self.provider.tracer(self.operator.clone());
        let filter = Targets::new().with_default(Level::INFO).with_target("windlass_runtime", Level::DEBUG);
        tracing_opentelemetry::layer().with_tracer(tracer).with_filter(filter).boxed()
    }

    /// Exports the remaining spans.
    pub(super) async fn finish(self) {
        // This waits for the exporter thread, which waits for this runtime.
        let ended = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(LAST_SPANS)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "failed to export the last spans");
        }
    }
}

/// HTTP client of the exporter. The exporter thread has no runtime, so requests run on this one.
#[derive(Clone, Debug)]
struct Sender {
    client: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
}

impl Sender {
    fn new() -> Result<Self, kube::Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The system's root certificates, as kube finds them.
        let tls = Config::new(http::Uri::from_static("https://localhost")).rustls_client_config()?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Ok(Self { client: legacy::Client::builder(TokioExecutor::new()).build(connector), runtime: Handle::current() })
    }
}

impl HttpClient for Sender {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let client = self.client.clone();
        let sending = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let sending = self.runtime.spawn(async move { tokio::time::timeout(ANSWER, sending).await });
        Box::pin(async move { sending.await?? })
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc};

    use hyper::{body::Incoming, server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use parking_lot::Mutex;
    use tokio::{net::TcpListener, task::JoinSet};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[tokio::test]
    async fn spans_arrive_at_a_collector_before_the_process_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let seen = received.clone();
        let mut collector = JoinSet::new();
        collector.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = seen.clone();
                let answer = service_fn(move |request: Request<Incoming>| {
                    let seen = seen.clone();
                    async move {
                        let path = request.uri().path().to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        seen.lock().push((path, String::from_utf8_lossy(&body).into_owned()));
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
                    }
                });
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
            }
        });

        let telemetry = Telemetry::new("span-operator", Some(&endpoint)).unwrap();
        let subscriber = tracing_subscriber::registry().with(telemetry.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info_span!("reconcile", object = "default/one").in_scope(|| tracing::info!("done"));
            tracing::debug_span!(target: "hyper", "noise").in_scope(|| ());
        });
        telemetry.finish().await;

        let received = received.lock();
        let [(path, body)] = &received[..] else { panic!("{received:?}") };
        assert_eq!(path, "/v1/traces");
        for expected in ["service.name", "span-operator", "reconcile", "default/one"] {
            assert!(body.contains(expected), "{expected} in {body}");
        }
        assert!(!body.contains("noise"), "{body}");
    }
}
