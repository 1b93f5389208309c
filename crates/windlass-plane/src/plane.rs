//! Starting, serving and stopping a plane.

use std::{
    error::Error as StdError,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{net::TcpListener, sync::oneshot};
use windlass_apiserver::{Server, tokens::TokenKey};
use windlass_store::{Store, embedded::EmbeddedStore, memory::MemoryStore};

use crate::{
    FolderLock, LockError, LoopOptions, Loops, NodeOptions, Pki, PkiError, Processes, Runtime, Selection, files,
    kubeconfig::kubeconfig,
};

/// How long the tasks of a plane that has stopped may take to end.
const CLOSING: Duration = Duration::from_secs(1);

/// Where a plane keeps its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// In memory: gone when the plane stops.
    Memory,
    /// In one file of the data folder; a write is acknowledged once it is on the disk.
    #[default]
    Embedded,
}

/// How to start a plane.
#[derive(Debug, Clone)]
pub struct PlaneOptions {
    /// The folder of certificates, kubeconfig and objects. Made if it is not there.
    pub data_dir: PathBuf,
    /// The address to listen on.
    pub address: IpAddr,
    /// The port to listen on; 0 for any free one.
    pub port: u16,
    /// Where objects are kept.
    pub store: StoreKind,
    /// DNS names and IP addresses that the serving certificate covers beside the usual ones.
    pub extra_names: Vec<String>,
    /// Whether definitions of `apiextensions.k8s.io/v1beta1` are accepted.
    pub old_definitions: bool,
    /// Which control loops run.
    pub controllers: Selection,
    /// What nodes there are.
    pub nodes: NodeOptions,
    /// How long requests in flight may take to finish once the plane stops.
    pub drain: Duration,
}

impl PlaneOptions {
    /// A plane in this folder, on a free port of the loopback address, with the embedded store.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            store: StoreKind::default(),
            extra_names: Vec::new(),
            old_definitions: true,
            controllers: Selection::all(),
            nodes: NodeOptions::default(),
            drain: Duration::from_millis(500),
        }
    }
}

/// Why a plane could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The data folder could not be made.
    #[error("cannot make the data folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The data folder could not be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The certificates could not be loaded or made.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The address could not be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The store could not be opened.
    #[error("cannot open the store {}", path.display())]
    Store {
        /// The store's file.
        path: PathBuf,
        /// What it said.
        source: windlass_store::Error,
    },
    /// The API server could not be built over the store.
    #[error("cannot start the API server")]
    Server(#[source] Box<dyn StdError + Send + Sync>),
    /// The key of tokens could not be kept.
    #[error("cannot keep the key of tokens {}", path.display())]
    TokenKey {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kubeconfig could not be written.
    #[error("cannot write {}", path.display())]
    Kubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A control loop ended, which none does by itself.
    #[error("a control loop stopped: {0}")]
    Loop(String),
    /// The listener failed while the plane was serving.
    #[error("the API server stopped")]
    Serve(#[source] io::Error),
}

impl PlaneError {
    /// What a person may do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        use io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
        match self {
            Self::Folder { .. }
            | Self::TokenKey { .. }
            | Self::Kubeconfig { .. }
            | Self::Lock(LockError::File { .. }) => Some("choose a data folder that you may write to".into()),
            Self::Lock(LockError::Held { owner, .. }) => Some(match owner {
                Some(pid) => format!("stop process {pid}, or choose another data folder"),
                None => "stop the other one, or choose another data folder".into(),
            }),
            Self::Pki(error) => error.hint(),
            Self::Listen { source, .. } => match source.kind() {
                AddrInUse => Some("something else listens there: choose another port, or 0 for any free one".into()),
                AddrNotAvailable => Some("this machine does not have that address".into()),
                PermissionDenied => Some("choose a port from 1024 up".into()),
                _ => None,
            },
            Self::Store { path, source } => Some(match source {
                windlass_store::Error::Locked { .. } => "stop the other process, or choose another data folder".into(),
                _ => format!("move {} away to begin with an empty store", path.display()),
            }),
            Self::Server(_) | Self::Loop(_) | Self::Serve(_) => None,
        }
    }
}

/// A control plane that has everything it needs and listens; [`run`](Plane::run) makes it answer.
pub struct Plane {
    server: Server,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    pki: Pki,
    url: String,
    kubeconfig_path: PathBuf,
    loops: Loops,
    processes: Option<Processes>,
    drain: Duration,
    // The last field, so that the folder is given up after all that uses it.
    _lock: FolderLock,
}

impl Plane {
    /// Takes the data folder, loads or makes the certificates, opens the store, listens, and writes `kubeconfig` into
    /// the folder. When this returns, clients may connect: their requests wait for [`run`](Plane::run).
    pub async fn start(options: PlaneOptions) -> Result<Self, PlaneError> {
        let folder = &options.data_dir;
        files::create_folder(folder).map_err(|source| PlaneError::Folder { path: folder.clone(), source })?;
        let lock = FolderLock::acquire(folder)?;

        // First of all, as the likeliest thing to fail and the cheapest to find out.
        let address = SocketAddr::new(options.address, options.port);
        let listening = |source| PlaneError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listening)?;
        let url = url(listener.local_addr().map_err(listening)?);

        // The disk is busy with the store while this thread makes certificates.
        let store = open_store(options.store, folder);
        let mut names = options.extra_names.clone();
        if !options.address.is_unspecified() {
            names.push(options.address.to_string());
        }
        let pki = Pki::load_or_create(&folder.join("pki"), &names)?;
        let tls = Arc::new(pki.server_config()?);
        let store = store.await?;
        let key = token_key(folder.join("pki").join("sa.key"))?;
        let mut builder = Server::builder(store).old_definitions(options.old_definitions).token_key(key);
        let processes = match &options.nodes.runtime {
            Runtime::Processes(processes) => Some(processes.clone()),
            Runtime::Simulated => None,
        };
        if let Some(processes) = &processes {
            processes.set_api_server(reached_at(listener.local_addr().map_err(listening)?));
            // Programs find the server by what every pod is given, if there are loops to make it.
            let given = ["serviceaccount-controller", "root-ca-certificate-publisher-controller"];
            let accounts = given.iter().all(|name| options.controllers.contains(name));
            builder = builder.pod_connections(processes.connections()).service_accounts(accounts);
        }
        let server = builder.build().await;
        let server = server.map_err(|error| PlaneError::Server(error.into()))?;

        let loops = LoopOptions {
            controllers: options.controllers,
            nodes: options.nodes,
            root_ca: Some(pki.ca().certificate.as_str().into()),
            authority: Some(pki.ca().clone()),
        };
        let loops = Loops::start(&server, &loops);
        let kubeconfig_path = folder.join("kubeconfig");
        files::replace(&kubeconfig_path, &kubeconfig(&pki, &url), files::SECRET)
            .map_err(|source| PlaneError::Kubeconfig { path: kubeconfig_path.clone(), source })?;
        Ok(Self {
            server,
            listener,
            tls,
            pki,
            url,
            kubeconfig_path,
            loops,
            processes,
            drain: options.drain,
            _lock: lock,
        })
    }

    /// Where clients reach the server: `https://ADDRESS:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig_path
    }

    /// The certificates.
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// The API server, for requests without a socket.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Serves until `shutdown` resolves, then lets requests in flight finish until the deadline. Watches are cut.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<(), PlaneError> {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            // An error means that the sender is gone, which is a reason to stop as well.
            let _ = stopped.await;
        };
        let serving = self.server.serve(self.listener, self.tls, stopped);
        tokio::pin!(serving);
        tokio::select! {
            result = &mut serving => return result.map_err(PlaneError::Serve),
            why = self.loops.failed() => return Err(PlaneError::Loop(why)),
            () = shutdown => {}
        }
        // While the server still answers.
        let _ = tokio::time::timeout(self.drain, self.loops.stop()).await;
        if let Some(processes) = self.processes {
            processes.shutdown(self.drain).await;
        }
        drop(stop);
        match tokio::time::timeout(self.drain, serving).await {
            Ok(result) => result.map_err(PlaneError::Serve),
            Err(_) => {
                tracing::warn!("cut off requests that were still running");
                Ok(())
            }
        }
    }
}

/// The key that tokens are signed with: the one from before, so that they are good after a restart.
fn token_key(path: PathBuf) -> Result<TokenKey, PlaneError> {
    let kept = |source| PlaneError::TokenKey { path: path.clone(), source };
    if let Some(text) = files::read(&path).map_err(kept)? {
        match TokenKey::from_pem(&text) {
            Ok(key) => return Ok(key),
            Err(error) => tracing::warn!(%error, path = %path.display(), "made a new key for tokens"),
        }
    }
    let key = TokenKey::generate();
    files::replace(&path, &key.to_pem(), files::SECRET).map_err(kept)?;
    Ok(key)
}

/// Begins to open the store at once; the answer says how that went.
fn open_store(kind: StoreKind, folder: &Path) -> impl Future<Output = Result<Arc<dyn Store>, PlaneError>> + use<> {
    let path = folder.join("store.redb");
    let file = path.clone();
    // After a crash the whole file is read: not for the threads that serve.
    let opening = tokio::task::spawn_blocking(move || -> Result<Arc<dyn Store>, windlass_store::Error> {
        match kind {
            StoreKind::Memory => Ok(Arc::new(MemoryStore::new())),
            StoreKind::Embedded => Ok(Arc::new(open_when_free(&file)?)),
        }
    });
    async move {
        let opened = opening.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        opened.map_err(|source| PlaneError::Store { path, source })
    }
}

/// Opens the file, which may be in use for a moment: the plane that had the folder before gives up the folder's lock
/// when it stops, and the file when the last of its tasks has ended.
fn open_when_free(file: &Path) -> Result<EmbeddedStore, windlass_store::Error> {
    let deadline = Instant::now() + CLOSING;
    loop {
        match EmbeddedStore::open(file) {
            Err(windlass_store::Error::Locked { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            result => return result,
        }
    }
}

/// Where a server is reached.
fn url(address: SocketAddr) -> String {
    format!("https://{}", reached_at(address))
}

/// A server that listens everywhere is reached over the loopback address.
fn reached_at(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_one_that_clients_can_connect_to() {
        for (address, expected) in [
            ("127.0.0.1:6443", "https://127.0.0.1:6443"),
            ("0.0.0.0:1", "https://127.0.0.1:1"),
            ("[::]:1", "https://[::1]:1"),
            ("[2001:db8::1]:443", "https://[2001:db8::1]:443"),
        ] {
            assert_eq!(url(address.parse().unwrap()), expected);
        }
    }
}
