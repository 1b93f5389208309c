//! The embedded control plane: a Kubernetes-compatible API server with its certificates, kubeconfig and data folder.
//!
//! ```no_run
//! # async fn example() -> Result<(), windlass_plane::PlaneError> {
//! use windlass_plane::{Plane, PlaneOptions};
//!
//! let plane = Plane::start(PlaneOptions::new("/tmp/plane")).await?;
//! println!("export KUBECONFIG={}", plane.kubeconfig_path().display());
//! plane.run(async { /* whatever ends it */ }).await
//! # }
//! ```
//!
//! A data folder belongs to one plane at a time. It holds
//!
//! | | |
//! |---|---|
//! | `kubeconfig` | the administrator's, with the certificates embedded |
//! | `pki/{ca,server,admin}.{crt,key}` | see [`Pki`] |
//! | `store.redb` | the objects, with [`StoreKind::Embedded`] |
//! | `lock` | see [`FolderLock`] |

mod files;
mod kubeconfig;
mod lock;
mod pki;
mod plane;
mod running;

pub use kubeconfig::kubeconfig;
pub use lock::{FolderLock, Holder, LockError};
pub use pki::{Pki, PkiError};
pub use plane::{Plane, PlaneError, PlaneOptions, StoreKind};
pub use running::{LoopOptions, Loops};
pub use windlass_apiserver::authorization::Permission;
pub use windlass_loops::{CertificateAndKey, Selection, UnknownLoop};
pub use windlass_nodes::{
    NodeOptions, POD_PROCESS, ProcessOptions, Processes, Runtime, StageError, Stages, become_pod_process,
};
