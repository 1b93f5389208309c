//! A control plane from the first request to the last.

use std::{convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::oneshot};
use windlass_apiserver::Server;
use windlass_store::Store;

use super::{CLOSING, PlaneError};
use crate::{DataDirLock, Loops, Processes};

/// Interval at which the data directory is checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Everything that serves requests.
pub(super) struct Running {
    pub(super) server: Server,
    pub(super) store: Arc<dyn Store>,
    pub(super) data_dir: PathBuf,
    pub(super) listener: TcpListener,
    pub(super) tls: Arc<rustls::ServerConfig>,
    pub(super) loops: Loops,
    pub(super) processes: Option<Processes>,
    pub(super) drain: Duration,
    // The last field, so that the directory is unlocked after everything that uses it is dropped.
    pub(super) lock: DataDirLock,
}

impl Running {
    /// Serves until `shutdown` resolves, with this work in the background, then waits for requests in flight until the
    /// deadline. Watches are closed.
    pub(super) async fn run(
        mut self,
        background: impl Future<Output = Infallible>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), PlaneError> {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            // An error means that the sender was dropped, which is a reason to stop as well.
            let _ = stopped.await;
        };
        let mut serving = Box::pin(self.server.serve(self.listener, self.tls, stopped));
        let outcome = tokio::select! {
            result = &mut serving => return result.map_err(PlaneError::Serve),
            why = self.loops.failed() => return Err(PlaneError::Loop(why)),
            error = data_lost(&*self.store, &self.lock, self.data_dir) => Err(error),
            never = background => match never {},
            () = shutdown => Ok(()),
        };
        // Clients connect to other API servers from now on.
        if tokio::time::timeout(self.drain.max(CLOSING), self.server.leave()).await.is_err() {
            tracing::warn!("failed to remove the endpoint of this API server in time: it expires");
        }
        // Loops stop while the server still handles their requests.
        let _ = tokio::time::timeout(self.drain, self.loops.stop()).await;
        if let Some(processes) = self.processes {
            processes.shutdown(self.drain).await;
        }
        drop(stop);
        match tokio::time::timeout(self.drain, &mut serving).await {
            Ok(result) => result.map_err(PlaneError::Serve)?,
            Err(_) => {
                tracing::warn!("closed connections with requests still in flight at the shutdown deadline");
                drop(serving);
                // Writes that have begun complete without their requests.
                let _ = tokio::time::timeout(CLOSING, self.server.finish_writes()).await;
                self.server.flush_audit().await;
            }
        }
        outcome
    }
}

/// Resolves when the data directory has been lost, or the store has failed for good.
async fn data_lost(store: &dyn Store, lock: &DataDirLock, path: PathBuf) -> PlaneError {
    let watching = async {
        while !lock.lost() {
            tokio::time::sleep(CHECK_EVERY).await;
            // Notices that the file of the store was removed, even if nothing is written.
            let _ = store.health();
        }
    };
    tokio::select! {
        biased;
        () = watching => PlaneError::DataDirLost { path },
        error = store.failed() => match lock.lost() {
            true => PlaneError::DataDirLost { path },
            false => PlaneError::StoreFailed(error),
        },
    }
}
