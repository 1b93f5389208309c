//! The accept loop of a server, with TLS or without.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, warn};

/// Timeout of TLS handshakes.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The first pause after a connection could not be accepted, for example because no file descriptors are left.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
///
/// If a connection cannot be accepted, `failed` is called, which can free resources, and the loop pauses: 5 ms at
/// first, twice as long after each further failure, at most 1 s.
pub async fn accept<S, F>(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    max_connections: usize,
    stop: impl Future<Output = ()>,
    failed: impl FnMut(&io::Error),
    serve: S,
) -> JoinSet<()>
where
    S: Fn(Handshake) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(tls);
    let serve = move |stream| serve(Handshake { acceptor: acceptor.clone(), stream });
    accept_tcp(listener, max_connections, stop, failed, serve).await
}

/// [`accept`] without TLS.
pub async fn accept_tcp<S, F>(
    listener: TcpListener,
    max_connections: usize,
    stop: impl Future<Output = ()>,
    mut failed: impl FnMut(&io::Error),
    serve: S,
) -> JoinSet<()>
where
    S: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    let mut pauses = Pauses::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if connections.len() < max_connections => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stop => return connections,
        };
        match accepted {
            Ok((stream, _)) => {
                pauses = Pauses::default();
                let connection: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(serve(stream));
                connections.spawn(connection);
            }
            // The client disconnected before it was accepted.
            Err(error) if is_of_connection(&error) => debug!(%error, "accept failed"),
            Err(error) => {
                failed(&error);
                let pause = pauses.next();
                if pause == FIRST_PAUSE {
                    warn!(%error, "failed to accept a connection");
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = &mut stop => return connections,
                }
            }
        }
    }
}

/// Returns whether an error concerns only the connection that was about to be accepted.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The pauses after failures in a row.
#[derive(Default)]
struct Pauses(Option<Duration>);

impl Pauses {
    fn next(&mut self) -> Duration {
        let next = self.0.map_or(FIRST_PAUSE, |last| (last * 2).min(LONGEST_PAUSE));
        self.0 = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second() {
        let mut pauses = Pauses::default();
        let millis: Vec<u128> = (0..10).map(|_| pauses.next().as_millis()).collect();
        assert_eq!(millis, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }
}
