//! Errors of a plane, with advice.

use std::{error::Error as StdError, io, net::SocketAddr, path::PathBuf};

use windlass_apiserver::{BuildError, authentication::AuthenticationError};
use windlass_etcd::EtcdError;

use crate::{JoinError, LockError, PkiError};

/// An error while starting or running a plane.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The data directory could not be created.
    #[error("failed to create data directory {}", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The data directory could not be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The certificates could not be loaded or issued.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The keys of another API server could not be used.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Clients cannot be authenticated as configured.
    #[error("failed to configure authentication")]
    Authentication(#[from] AuthenticationError),
    /// The server could not listen on the address.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The store could not be opened.
    #[error("failed to open store {}", path.display())]
    Store {
        /// The store's file.
        path: PathBuf,
        /// The error of the store.
        source: windlass_store::Error,
    },
    /// etcd cannot be used as the store.
    #[error("failed to open the store in etcd")]
    Etcd(#[source] EtcdError),
    /// Other API servers over the same store have options that do not fit.
    #[error("failed to join the API servers over the same store")]
    Disagreement(#[source] BuildError),
    /// The API server could not be built on top of the store.
    #[error("failed to start the API server")]
    Server(#[source] Box<dyn StdError + Send + Sync>),
    /// The audit log or webhook cannot be used.
    #[error("failed to start auditing")]
    Audit(#[source] Box<dyn StdError + Send + Sync>),
    /// The signing key of service account tokens could not be read or stored.
    #[error("failed to read or write the token signing key {}", path.display())]
    TokenKey {
        /// The key's file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The signing key of service account tokens is damaged, empty or of an unknown type.
    #[error("{} {problem}", path.display())]
    TokenKeyInvalid {
        /// The key's file.
        path: PathBuf,
        /// The problem, worded to follow the path of the file.
        problem: String,
    },
    /// The kubeconfig could not be written.
    #[error("failed to write {}", path.display())]
    Kubeconfig {
        /// The kubeconfig file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The data directory was deleted, moved or replaced while the plane was running.
    #[error("data directory {} was deleted or replaced while it was in use", path.display())]
    DataDirLost {
        /// The directory.
        path: PathBuf,
    },
    /// The store failed while the plane was running, and cannot recover.
    #[error("the control plane cannot continue")]
    StoreFailed(#[source] windlass_store::Error),
    /// A control loop ended unexpectedly.
    #[error("a control loop stopped: {0}")]
    Loop(String),
    /// The listener failed while the plane was serving.
    #[error("the API server stopped")]
    Serve(#[source] io::Error),
}

impl PlaneError {
    /// Returns whether the data of a running plane was lost or can no longer be written.
    pub fn is_storage_failure(&self) -> bool {
        matches!(self, Self::DataDirLost { .. } | Self::StoreFailed(_))
    }

    /// Returns advice on how to resolve the error, if there is any.
    pub fn hint(&self) -> Option<String> {
        use io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
        match self {
            Self::DataDir { .. }
            | Self::TokenKey { .. }
            | Self::Kubeconfig { .. }
            | Self::Lock(LockError::File { .. }) => Some("choose a data directory that you can write to".into()),
            Self::Lock(LockError::Held { owner, .. }) => Some(match owner {
                Some(pid) => format!("stop process {pid}, or choose another data directory"),
                None => "stop the other plane, or choose another data directory".into(),
            }),
            Self::Pki(error) => error.hint(),
            Self::Join(error) => Some(error.hint()),
            Self::TokenKeyInvalid { .. } => Some(
                "restore the file, or use an RSA key of 2048, 3072 or 4096 bits or a key of the curve P-256 or P-384; if you \
                 remove the file, a new key is created, and tokens issued before become invalid"
                    .into(),
            ),
            Self::Listen { source, .. } => match source.kind() {
                AddrInUse => Some("the port is in use: choose another one, or 0 for any free port".into()),
                AddrNotAvailable => Some("this machine does not have that address".into()),
                PermissionDenied => Some("choose a port of 1024 or above".into()),
                _ => None,
            },
            Self::Store { path, source } => Some(match source {
                windlass_store::Error::Locked { .. } => {
                    "stop the other process, or choose another data directory".into()
                }
                _ => format!(
                    "restore a snapshot into another data directory, or move {} away to start with an empty store",
                    path.display()
                ),
            }),
            Self::Etcd(error) => Some(error.hint().into()),
            Self::Disagreement(_) => Some(
                "start it with the options and the keys of the other API servers (--join FILE, from `windlass join-file`); to \
                 change these options, stop all API servers first"
                    .into(),
            ),
            Self::DataDirLost { .. } => Some("start it again; stop it before its data is deleted or moved".into()),
            Self::StoreFailed(_) => Some("check the disk or etcd, then start it again: acknowledged writes are kept".into()),
            Self::Audit(_) => Some("check the --audit-log and --audit-webhook options".into()),
            Self::Authentication(_) | Self::Server(_) | Self::Loop(_) | Self::Serve(_) => None,
        }
    }
}
