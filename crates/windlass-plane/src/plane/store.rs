//! Opening the store.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use windlass_etcd::{EtcdOptions, EtcdStore};
use windlass_store::{EmbeddedOptions, EmbeddedStore, Error, MemoryStore, Store};

use super::{CLOSING, PlaneError, STORE, StoreKind};

/// Time limit for etcd to become available, the interval of attempts, and that of log messages.
const WAIT_FOR_ETCD: Duration = Duration::from_secs(60);
const TRY_EVERY: Duration = Duration::from_millis(500);
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Opens the store; a file at once, before the returned future is polled.
pub(super) fn open_store(
    kind: StoreKind,
    directory: &Path,
    quota_bytes: Option<u64>,
) -> impl Future<Output = Result<Arc<dyn Store>, PlaneError>> + use<> {
    let path = directory.join(STORE);
    let file = path.clone();
    let options = EmbeddedOptions { quota_bytes, ..EmbeddedOptions::DEFAULT };
    // After a crash the whole file is read, which would block the threads that serve.
    let opening = match kind {
        StoreKind::Etcd(etcd) => Err(etcd),
        kind => Ok(tokio::task::spawn_blocking(move || -> Result<Arc<dyn Store>, Error> {
            match kind {
                StoreKind::EmbeddedWithoutFsync => {
                    Ok(Arc::new(open_when_free(|| EmbeddedStore::open_file_without_fsync(&file, options))?))
                }
                StoreKind::Embedded => Ok(Arc::new(open_when_free(|| EmbeddedStore::open_file(&file, options))?)),
                StoreKind::Memory | StoreKind::Etcd(_) => Ok(Arc::new(MemoryStore::new())),
            }
        })),
    };
    async move {
        match opening {
            Ok(opening) => {
                let opened = opening.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                opened.map_err(|source| PlaneError::Store { path, source })
            }
            Err(etcd) => wait_for_etcd(etcd).await,
        }
    }
}

/// Connects to etcd, which may still be starting.
async fn wait_for_etcd(options: EtcdOptions) -> Result<Arc<dyn Store>, PlaneError> {
    let start = Instant::now();
    let mut report_at = start;
    loop {
        let error = match EtcdStore::open(options.clone()).await {
            Ok(store) => {
                tracing::info!(servers = options.servers.join(","), prefix = options.prefix, "connected to etcd");
                return Ok(Arc::new(store));
            }
            Err(error) => error,
        };
        if !error.is_transient() || start.elapsed() >= WAIT_FOR_ETCD {
            return Err(PlaneError::Etcd(error));
        }
        if Instant::now() >= report_at {
            tracing::warn!(%error, "waiting for etcd");
            report_at = Instant::now() + REPORT_EVERY;
        }
        sleep(TRY_EVERY).await;
    }
}

/// Opens a file, which may still be in use for a moment: the previous plane releases the directory's lock when it
/// stops, and the file when the last of its tasks has ended.
pub(crate) fn open_when_free(open: impl Fn() -> Result<EmbeddedStore, Error>) -> Result<EmbeddedStore, Error> {
    let deadline = std::time::Instant::now() + CLOSING;
    loop {
        match open() {
            Err(Error::Locked { .. }) if std::time::Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            result => return result,
        }
    }
}
