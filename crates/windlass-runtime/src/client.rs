//! Client of the API server: HTTP/2, metrics, an optional rate limit.
//!
//! [`connect`] creates a [`kube::Client`] with kube's authentication and headers, but with its own transport: all
//! requests and watches share one HTTP/2 connection (another is opened only when it is full), a dead peer is detected
//! by pings rather than by a read timeout, and every request is counted. Servers without HTTP/2 are called with
//! HTTP/1.1.
//!
//! ```no_run
//! use windlass_runtime::client::{self, ClientOptions, Target};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = client::configuration(&Target::default()).await?;
//! let client = client::connect(&config, ClientOptions::new("foo-operator"))?;
//! println!("{}", client.apiserver_version().await?.git_version);
//! # Ok(())
//! # }
//! ```

use std::{path::PathBuf, time::Duration};

use http::{HeaderValue, Request, Response, header::USER_AGENT};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, ServiceBuilder, retry::RetryLayer};

use crate::metrics::Metrics;

mod observed;
mod rate;
mod retry;
mod send_condition;
#[cfg(test)]
mod tests;
mod time_limit;
mod transport;

use observed::{ObserveLayer, RequestMetrics, SkipRateLimit};
pub use rate::Rate;
use retry::RetryOverloaded;
pub use send_condition::SendCondition;
pub(crate) use time_limit::{NoResponse, TimeLimit};
use transport::Transport;

/// Options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Name of the program, for the logs of the API server.
    pub user_agent: String,
    /// Metrics in which `rest_client_requests_total` is counted. A [`Metrics`] supports one client.
    pub metrics: Option<Metrics>,
    /// Whether to measure the duration of requests, too: `rest_client_request_duration_seconds`.
    pub measure_durations: bool,
    /// Rate limit of requests. The API server's own priority and fairness makes this unnecessary in most clusters.
    pub rate: Option<Rate>,
    /// Time without data after which a connection is pinged.
    pub ping_after: Duration,
    /// Time without a response to a ping after which a connection is closed, with all requests on it.
    pub ping_timeout: Duration,
}

/// The cluster to connect to. By default, the cluster that the process runs in, or the current context of the user's
/// kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Path of a kubeconfig, instead of `$KUBECONFIG` or `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig, instead of the current one.
    pub context: Option<String>,
}

/// Error from creating a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The kubeconfig is invalid.
    #[error("invalid kubeconfig")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    /// The process does not run in a cluster, and there is no kubeconfig.
    #[error("found neither an in-cluster configuration nor a kubeconfig")]
    NotFound(#[source] Box<kube::config::InferConfigError>),
    /// Certificates, credentials or headers of the configuration are invalid.
    #[error("invalid client configuration")]
    Configuration(#[source] Box<kube::Error>),
    /// The name of the program is not a valid header value.
    #[error("{0:?} is not a valid value of the header User-Agent")]
    UserAgent(String),
}

impl ClientOptions {
    /// Creates options without rate limit and metrics.
    pub fn new(user_agent: impl Into<String>) -> Self {
        Self {
            user_agent: user_agent.into(),
            metrics: None,
            measure_durations: false,
            rate: None,
            // As in client-go.
            ping_after: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
        }
    }

    /// Counts requests.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Limits the rate of requests.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }
}

impl ClientError {
    /// Returns advice for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Kubeconfig(_) => "check --kubeconfig, --context and KUBECONFIG",
            Self::NotFound(_) => {
                "set --kubeconfig or KUBECONFIG; in a pod, check that its service account token is mounted"
            }
            Self::Configuration(_) => {
                "check the user and cluster of the context in the kubeconfig; \
                                       proxies need the features `http-proxy` or `socks5` of the crate `kube`"
            }
            Self::UserAgent(_) => "use letters, digits and dashes in the operator's name",
        }
    }
}

/// Returns the configuration for a target. Reads files, and runs the credential plugin of a kubeconfig.
pub async fn configuration(target: &Target) -> Result<Config, ClientError> {
    if *target == Target::default() {
        return Config::infer().await.map_err(|error| ClientError::NotFound(Box::new(error)));
    }
    let kubeconfig = match &target.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let options = KubeConfigOptions { context: target.context.clone(), ..KubeConfigOptions::default() };
    match kubeconfig {
        Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
        Err(error) => Err(error),
    }
    .map_err(|error| ClientError::Kubeconfig(Box::new(error)))
}

/// Creates a client, which connects with the first request. Must be called within a tokio runtime.
///
/// Reads have no timeout, as watches may be silent for long. Requests that an overloaded server rejected (429, 503,
/// 504) are retried according to `default_retry` of the configuration, except for evictions that a budget rejected; a request can be [restricted](SendCondition) to
/// the time in which it makes sense. Through a proxy, kube's own transport is used, with HTTP/1.1.
pub fn connect(config: &Config, options: ClientOptions) -> Result<Client, ClientError> {
    let unusable = |error| ClientError::Configuration(Box::new(error));
    // The crypto provider must not depend on the features of other crates. An installed provider is kept.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut config = config.clone();
    let agent =
        HeaderValue::from_str(&options.user_agent).map_err(|_| ClientError::UserAgent(options.user_agent.clone()))?;
    if !config.headers.iter().any(|(name, _)| name == USER_AGENT) {
        config.headers.push((USER_AGENT, agent));
    }
    let metrics = options.metrics.as_ref().map(|metrics| RequestMetrics::register(metrics, options.measure_durations));
    let observe = ObserveLayer::new(metrics, options.rate);

    // Above the observing layer, so that every attempt waits for the rate limit and is counted.
    let retry = config.default_retry.then(|| RetryLayer::new(RetryOverloaded::new()));
    if config.proxy_url.is_some() {
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let proxied = ClientBuilder::try_from(config).map_err(unusable)?.build();
        let service = ServiceBuilder::new()
            .option_layer(retry)
            .layer(observe)
            .map_err(BoxError::from)
            .service_fn(move |request| sent_by(proxied.clone(), request));
        return Ok(Client::new(service, namespace));
    }
    let namespace = config.default_namespace.clone();
    let transport = Transport::new(&config, &options).map_err(unusable)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry)
        .option_layer(config.auth_layer().map_err(unusable)?)
        .layer(config.extra_headers_layer().map_err(unusable)?)
        .layer(observe)
        .map_err(BoxError::from)
        .service(transport);
    Ok(Client::new(service, namespace))
}

/// Returns the same client without rate limit, for requests that must not wait, such as lease renewals.
pub(crate) fn urgent(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(SkipRateLimit);
        sent_by(client.clone(), request)
    });
    Client::new(service, namespace)
}

async fn sent_by(client: Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    client.send(request).await
}
