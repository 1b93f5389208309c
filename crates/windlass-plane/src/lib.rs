//! The embedded control plane: a Kubernetes-compatible API server with its certificates, kubeconfig and data
//! directory.
//!
//! ```no_run
//! # async fn example() -> Result<(), windlass_plane::PlaneError> {
//! use windlass_plane::{Plane, PlaneOptions};
//!
//! let plane = Plane::start(PlaneOptions::new("/tmp/plane")).await?;
//! println!("export KUBECONFIG={}", plane.kubeconfig_path().display());
//! plane.run(async { /* until shutdown */ }).await
//! # }
//! ```
//!
//! A data directory belongs to one plane at a time. It contains:
//!
//! | | |
//! |---|---|
//! | `kubeconfig` | the administrator's kubeconfig, with embedded certificates |
//! | `pki/{ca,server,admin,front-proxy-ca,front-proxy-client}.{crt,key}` | see [`Pki`] |
//! | `pki/sa.key` | the signing key of service account tokens |
//! | `store.redb` | the objects, with [`StoreKind::Embedded`] |
//! | `lock` | see [`DataDirLock`] |

mod files;
mod identities;
mod join;
mod kubeconfig;
mod lock;
mod loops;
pub mod metrics_server;
pub mod migration;
mod pki;
mod plane;
mod renewal;
pub mod snapshot;
mod token_key;

pub use join::{JoinError, join_file};
pub use kubeconfig::kubeconfig;
pub use lock::{DataDirLock, Holder, LockError};
pub use loops::{LoopOptions, Loops};
pub use pki::{
    ClientCertificateRequest, FRONT_PROXY_CLIENT, FrontProxy, Pki, PkiError, authority_expires, certificate_expires,
};
pub use plane::{GivenCredentials, Plane, PlaneError, PlaneOptions, Standalone, StoreKind};
pub use windlass_apiserver::{
    InvalidPortRange, Limits, NodePortRange, RuntimeConfig, RuntimeConfigError, ServiceNetwork, Verb,
    admission::{AdmissionConfiguration, DISABLEABLE_PLUGINS, NO_EVENT_LIMITS, OPTIONAL_PLUGINS},
    audit,
    authentication::{
        AnonymousOptions, AuthenticationOptions, RequestHeaderOptions, TokenFile, TokenFileError,
        jwt::{self, JwtOptions},
        webhook_token::{TokenReviewVersion, WebhookTokenOptions},
    },
    authorization::{AuthorizationOptions, AuthorizerOptions, Permission, WebhookOptions},
    tokens::{TokenKey, TokenKeyError},
};
pub use windlass_etcd::{DEFAULT_PREFIX as ETCD_PREFIX, EtcdError, EtcdOptions};
pub use windlass_loops::{CertificateAndKey, Selection, UnknownLoop};
pub use windlass_nodes::{
    NodeOptions, NodeUsage, POD_PROCESS, ProcessOptions, Processes, Runtime, StageError, Stages, exec_pod_process,
};
