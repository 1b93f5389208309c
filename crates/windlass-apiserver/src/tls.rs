//! Serves over TLS: connections, the users of their certificates, and graceful shutdown.

use std::{convert::Infallible, future::Future, io, sync::Arc, time::Duration};

use http::Request;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use rustls::pki_types::CertificateDer;
use tokio::net::TcpListener;
use tracing::{debug, warn};
use windlass_tls::Handshake;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{server::Server, user::User};

/// How long open requests may take to finish after the server is stopped.
const DRAIN: Duration = Duration::from_millis(700);
/// How long writes that have begun may take to complete after that.
const FINISH: Duration = Duration::from_secs(5);

impl Server {
    /// Serves HTTP/1.1 and HTTP/2 over TLS until `shutdown` resolves, then ends watches and lets open requests finish.
    ///
    /// A client certificate that the TLS configuration accepts authenticates the client: its common name is the user,
    /// its organizations are the groups.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let graceful = GracefulShutdown::new();
        let connections = windlass_tls::accept(listener, tls, usize::MAX, shutdown, |handshake| {
            connection(self.clone(), handshake, graceful.watcher())
        })
        .await;
        self.stop();
        // Requests that take longer are cut off.
        let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
        // Remaining connections would keep the store open.
        drop(connections);
        if tokio::time::timeout(FINISH, self.finish_writes()).await.is_err() {
            warn!("stopped with writes in progress");
        }
        Ok(())
    }
}

async fn connection(server: Server, handshake: Handshake, watcher: Watcher) {
    let Some(stream) = handshake.complete().await else { return };
    let user = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).and_then(user_of);
    let user = user.map(Arc::new);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        if let Some(user) = &user {
            request.extensions_mut().insert(user.clone());
        }
        let inner = server.inner.clone();
        async move { Ok::<_, Infallible>(inner.handle(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(1000)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_send_buf_size(256 << 10)
        .keep_alive_interval(Duration::from_secs(30));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        debug!(%error, "connection ended");
    }
}

/// Returns the user of a verified client certificate; `None` if it has no common name.
fn user_of(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = parsed.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let mut groups: Vec<String> =
        subject.iter_organization().filter_map(|name| name.as_str().ok().map(str::to_owned)).collect();
    groups.push("system:authenticated".to_owned());
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let credential = ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={hex}")]);
    Some(User { name, groups, extra: [credential].into(), ..User::default() })
}
