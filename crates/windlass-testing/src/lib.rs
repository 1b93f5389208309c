//! Tests for operators, each with its own control plane in the same process.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, api::PostParams};
//! use windlass_testing::{TestCluster, eventually};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let cluster = TestCluster::start().await;
//! let maps: Api<ConfigMap> = cluster.api();
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("settings".to_owned());
//! maps.create(&PostParams::default(), &map).await.unwrap();
//! eventually("the map exists", async || maps.get_opt("settings").await.unwrap()).await;
//! # });
//! ```
//!
//! The same tests run against a cluster if `WINDLASS_TEST_KUBECONFIG` names its kubeconfig.

mod account;
mod cluster;
mod denials;
mod expect;
pub mod fixtures;
mod history;
mod plane;
mod recording;
mod running;
mod webhooks;

pub use cluster::{TestCluster, eventually, skip_on_cluster};
pub use expect::Expectation;
pub use plane::{TestPlane, TestPlaneBuilder};
pub use running::RunningOperator;
pub use windlass_runtime::access::Denial;
