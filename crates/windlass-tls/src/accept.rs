//! The accept loop of a TLS server.

use std::{future::Future, sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::debug;

/// Timeout of TLS handshakes.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted, for example because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// An accepted connection, before its TLS handshake.
pub struct Handshake {
    acceptor: TlsAcceptor,
    stream: TcpStream,
}

impl Handshake {
    /// Completes the handshake. Returns `None` if it fails or takes longer than ten seconds.
    pub async fn complete(self) -> Option<TlsStream<TcpStream>> {
        let _ = self.stream.set_nodelay(true);
        match tokio::time::timeout(HANDSHAKE, self.acceptor.accept(self.stream)).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_) => debug!("TLS handshake timed out"),
        }
        None
    }
}

/// Accepts connections until `stop` resolves, and runs `serve` for each of them in a task. At most `max_connections`
/// are open at a time; others wait.
///
/// Returns the tasks of open connections: dropping them closes the connections. `serve` is called in order, before the
/// handshake, so that a guard for graceful shutdown covers connections that are still in their handshake.
pub async fn accept<S, F>(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    max_connections: usize,
    stop: impl Future<Output = ()>,
    serve: S,
) -> JoinSet<()>
where
    S: Fn(Handshake) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(tls);
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept(), if connections.len() < max_connections => match accepted {
                Ok((stream, _)) => stream,
                // One connection could not be accepted (too many open files, a client that disconnected): try the next.
                Err(error) => {
                    debug!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
            () = &mut stop => return connections,
        };
        connections.spawn(serve(Handshake { acceptor: acceptor.clone(), stream }));
    }
}
