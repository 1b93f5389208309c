//! The client of an operator: HTTP/2, metrics, an optional rate limit.
//!
//! [`connect`] makes a [`kube::Client`] as kube does, with the same authentication and headers, over a transport of its
//! own: all requests and watches share one HTTP/2 connection (another is opened only when it is full), a peer that is
//! gone is noticed by pings rather than by a timeout of reads, and every request is counted. Servers that do not speak
//! HTTP/2 are spoken to in HTTP/1.1.
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
    client::{Body, ClientBuilder, ConfigExt as _, retry::RetryPolicy},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, ServiceBuilder, retry::RetryLayer};

use crate::metrics::Metrics;

mod observed;
mod rate;
mod send_condition;
#[cfg(test)]
mod tests;
mod transport;

use observed::{ObserveLayer, RequestMetrics, SkipRateLimit};
pub use rate::Rate;
pub use send_condition::SendCondition;
use transport::Transport;

/// How to talk to the API server.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The name of the program, for the server's logs.
    pub user_agent: String,
    /// Where `rest_client_requests_total` is counted. A [`Metrics`] serves one client.
    pub metrics: Option<Metrics>,
    /// Whether the duration of requests is measured, too: `rest_client_request_duration_seconds`.
    pub measure_durations: bool,
    /// How many requests may be sent. The API server's own fairness makes this needless in most clusters.
    pub rate: Option<Rate>,
    /// A connection on which nothing has come for this long is pinged.
    pub ping_after: Duration,
    /// A connection on which a ping is not answered for this long is given up, with all that wait on it.
    pub ping_timeout: Duration,
}

/// Which cluster to talk to. The default is the cluster that the process runs in, or the current context of the
/// kubeconfig of whoever started it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// A kubeconfig, in place of those in `KUBECONFIG` or `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig, in place of the current one.
    pub context: Option<String>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    /// Neither a cluster around the process nor a kubeconfig was found.
    #[error("there is neither a cluster around this process nor a kubeconfig")]
    NotFound(#[source] Box<kube::config::InferConfigError>),
    /// Certificates, credentials or headers of the configuration cannot be used.
    #[error("the configuration of the client cannot be used")]
    Configuration(#[source] Box<kube::Error>),
    /// The name of the program cannot be a header.
    #[error("{0:?} cannot be the value of the header User-Agent")]
    UserAgent(String),
}

impl ClientOptions {
    /// Requests are neither limited nor counted.
    pub fn new(user_agent: impl Into<String>) -> Self {
        Self {
            user_agent: user_agent.into(),
            metrics: None,
            measure_durations: false,
            rate: None,
            // As client-go has it.
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

    /// Limits requests.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }
}

impl ClientError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Kubeconfig(_) => "check --kubeconfig, --context and KUBECONFIG",
            Self::NotFound(_) => {
                "give --kubeconfig, or set KUBECONFIG; in a pod, check that its service account's token is mounted"
            }
            Self::Configuration(_) => {
                "check the user and cluster of the context in the kubeconfig; \
                                       proxies need the features `http-proxy` or `socks5` of the crate `kube`"
            }
            Self::UserAgent(_) => "use letters, digits and dashes in the operator's name",
        }
    }
}

/// The configuration of a target. Reads files, and runs the credential plugin that a kubeconfig may name.
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

/// A client. Connects with the first request. Must be called within a tokio runtime.
///
/// Reads have no timeout, as watches may be silent for long. Requests that the server was too busy for (429, 503, 504)
/// are tried again, as `default_retry` of the configuration says; a request [may be limited](OnlyWhile) to the time in
/// which it makes sense. Through a proxy, kube's own transport is used, which
/// is HTTP/1.1.
pub fn connect(config: &Config, options: ClientOptions) -> Result<Client, ClientError> {
    let unusable = |error| ClientError::Configuration(Box::new(error));
    // Which of several providers is used must not depend on the features of other crates. Somebody's choice is kept.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut config = config.clone();
    let agent =
        HeaderValue::from_str(&options.user_agent).map_err(|_| ClientError::UserAgent(options.user_agent.clone()))?;
    if !config.headers.iter().any(|(name, _)| name == USER_AGENT) {
        config.headers.push((USER_AGENT, agent));
    }
    let metrics = options.metrics.as_ref().map(|metrics| RequestMetrics::register(metrics, options.measure_durations));
    let observe = ObserveLayer::new(metrics, options.rate);

    // Above what observes, so that every try waits for its turn and is counted.
    let retry = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
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

/// The same client, for requests that must not wait behind others for their turn, as those that keep a lease.
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
