//! The runtime of targets that are asynchronous.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    runtime::{Builder, Runtime},
};

/// The virtual time after which a connection that should end is a finding.
const TIMEOUT: Duration = Duration::from_secs(3600);

thread_local! {
    static RUNTIME: Runtime = runtime();
}

/// Returns a runtime of one thread whose time is virtual: it advances when there is nothing else to do, so waiting
/// costs nothing, and a future that waits for something that never happens is found at once.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime must start")
}

/// Runs a future on the runtime of this thread.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Sends bytes to a server, closes the sending side, and returns everything that the server sends until it
/// disconnects, which it must do.
pub(crate) async fn talk(client: DuplexStream, bytes: &[u8]) -> Vec<u8> {
    let (mut read, mut write) = tokio::io::split(client);
    let writing = async {
        // The server may disconnect before it has read everything.
        let _ = write.write_all(bytes).await;
        let _ = write.shutdown().await;
    };
    let mut received = Vec::new();
    let reading = read.read_to_end(&mut received);
    let both = async { tokio::join!(writing, reading) };
    tokio::time::timeout(TIMEOUT, both).await.expect("the connection must end").1.expect("a pipe must not fail");
    received
}
