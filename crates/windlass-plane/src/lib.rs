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
mod loops;
mod nodes;
mod pki;
mod plane;
mod processes;
mod running;

pub use kubeconfig::kubeconfig;
pub use lock::{FolderLock, Holder, LockError};
pub use loops::{Selection, UnknownLoop};
pub use nodes::{NodeOptions, Runtime, StageError, Stages};
pub use pki::{CertificateAndKey, Pki, PkiError};
pub use plane::{Plane, PlaneError, PlaneOptions, StoreKind};
pub use processes::{POD_PROCESS, ProcessOptions, Processes, become_pod_process};
pub use running::{LoopOptions, Loops};
pub use windlass_apiserver::authorization::Permission;
