//! The HTTPS server of webhooks.

use std::{
    convert::Infallible,
    io,
    net::{Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, pem::PemObject as _},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use tokio::net::TcpListener;
use tracing::debug;
use windlass_tls::Handshake;

use super::{
    Certificates,
    certificates::{CertResolver, CertificateError, SelfSignedError, Source, SourceError, provider},
    http::Handler,
    memory::Memory,
    metrics::WebhookMetrics,
    registry::Webhooks,
};
use crate::{metrics::Metrics, shutdown::Shutdown};

/// Maximum number of connections; others wait. An API server has one connection with HTTP/2, and one per concurrent
/// request otherwise.
const MAX_CONNECTIONS: usize = 256;
/// Flow control window of a connection whose request waits for memory: with [`MAX_CONNECTIONS`], 256 MiB at most.
const CONNECTION_WINDOW: u32 = 1 << 20;
const STREAM_WINDOW: u32 = CONNECTION_WINDOW / 4;

/// Error from starting the webhook server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Two webhooks have the same path or name, or two conversions the same kind.
    #[error("{0} is used twice")]
    Duplicate(String),
    /// The server could not listen.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The certificate files are invalid.
    #[error("no serving certificate for webhooks")]
    Files(#[source] CertificateError),
    /// The self-signed certificate could not be created.
    #[error("no serving certificate for webhooks")]
    SelfSigned(#[source] SelfSignedError),
    /// The client CA is invalid.
    #[error("invalid client CA: {0}")]
    ClientAuthority(String),
    /// TLS could not be set up.
    #[error("failed to set up TLS")]
    Tls(#[from] rustls::Error),
}

/// Options of a webhook server.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// Address to listen on; port 9443 of all interfaces by default.
    pub address: SocketAddr,
    /// Source of the serving certificate.
    pub certificates: Certificates,
    /// Client CAs in PEM. If set, clients need a certificate of one of them. The API server has one if it is configured
    /// by its `--admission-control-config-file`.
    pub client_authority: Option<Vec<u8>>,
    /// Whether clients may use HTTP/2; true by default.
    pub http2: bool,
    /// Time that open requests get to finish after [`Shutdown::drain`]; 10 seconds by default.
    pub drain: Duration,
}

/// A webhook server that is ready: the address is bound, and there is a certificate. [`WebhookServer::run`] handles
/// requests.
#[derive(Debug)]
pub struct WebhookServer {
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    handler: Handler,
    source: Source,
    http2: bool,
    drain: Duration,
}

impl WebhookOptions {
    /// Returns the default options.
    pub fn new(certificates: impl Into<Certificates>) -> Self {
        Self {
            address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 9443)),
            certificates: certificates.into(),
            client_authority: None,
            http2: true,
            drain: Duration::from_secs(10),
        }
    }
}

impl Webhooks {
    /// Listens and gets the certificate. Connections wait until [`WebhookServer::run`].
    pub async fn bind(self, options: WebhookOptions, metrics: &Metrics) -> Result<WebhookServer, ServeError> {
        self.check()?;
        let listener = listen(options.address).await;
        let listener = listener.map_err(|source| ServeError::Listen { address: options.address, source })?;
        self.on(listener, options, metrics).await
    }

    /// Like [`Webhooks::bind`], with an existing listener.
    pub async fn on(
        self,
        listener: TcpListener,
        options: WebhookOptions,
        metrics: &Metrics,
    ) -> Result<WebhookServer, ServeError> {
        self.check()?;
        let address = listener.local_addr();
        let address = address.map_err(|source| ServeError::Listen { address: options.address, source })?;
        let metrics = WebhookMetrics::register(metrics);
        self.paths().for_each(|path| metrics.announce(path));
        let resolver = options.certificates.resolver();
        let paths = self.paths().map(str::to_owned).collect();
        let tls = Arc::new(tls(&resolver, options.client_authority.as_deref(), options.http2)?);
        let source = options.certificates.prepare(&resolver, paths, &metrics.certificates).await?;
        let handler = Handler { webhooks: Arc::new(self), memory: Memory::default(), metrics };
        Ok(WebhookServer { listener, address, tls, handler, source, http2: options.http2, drain: options.drain })
    }

    fn check(&self) -> Result<(), ServeError> {
        match &self.duplicate {
            Some(duplicate) => Err(ServeError::Duplicate(duplicate.clone())),
            None => Ok(()),
        }
    }

    /// Combines [`Webhooks::bind`] and [`WebhookServer::run`].
    pub async fn serve(self, options: WebhookOptions, metrics: &Metrics, shutdown: Shutdown) -> Result<(), ServeError> {
        self.bind(options, metrics).await?.run(shutdown).await;
        Ok(())
    }
}

impl WebhookServer {
    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Handles requests until draining begins, then lets open requests finish until the timeout of the options or until
    /// aborting begins. Keeps the certificate up to date meanwhile.
    pub async fn run(self, shutdown: Shutdown) {
        let Self { listener, tls, handler, source, http2, drain, .. } = self;
        let serving = serve(listener, tls, handler, http2, drain, shutdown);
        tokio::select! {
            () = serving => {}
            () = source.run() => {}
        }
    }
}

async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        // A machine without IPv6.
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    handler: Handler,
    http2: bool,
    drain: Duration,
    shutdown: Shutdown,
) {
    let graceful = GracefulShutdown::new();
    // Connections that remain at the end are cut off.
    let _connections = windlass_tls::accept(
        listener,
        tls,
        MAX_CONNECTIONS,
        shutdown.draining(),
        |_| {},
        |handshake| connection(handler.clone(), handshake, graceful.watcher(), http2),
    )
    .await;
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(drain) => debug!("dropped open webhook requests"),
        () = shutdown.aborting() => {}
    }
}

async fn connection(handler: Handler, handshake: Handshake, watcher: Watcher, http2: bool) {
    let Some(stream) = handshake.complete().await else { return };
    let service = hyper::service::service_fn(move |request| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.handle(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(250)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(Duration::from_secs(30));
    let builder = if http2 { builder } else { builder.http1_only() };
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        debug!(%error, "connection ended");
    }
}

fn tls(resolver: &CertResolver, client_authority: Option<&[u8]>, http2: bool) -> Result<ServerConfig, ServeError> {
    let provider = Arc::new(provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match client_authority {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for authority in CertificateDer::pem_slice_iter(pem) {
                let authority = authority.map_err(|error| ServeError::ClientAuthority(error.to_string()))?;
                roots.add(authority)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| ServeError::ClientAuthority(error.to_string()))?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(resolver.clone()));
    config.alpn_protocols = if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    // No session resumption, so that every handshake uses the current certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

impl From<SourceError> for ServeError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Files(error) => Self::Files(error),
            SourceError::SelfSigned(error) => Self::SelfSigned(error),
        }
    }
}
