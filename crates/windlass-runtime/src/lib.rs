//! Building blocks of Kubernetes operators: shared informers, a work queue, controllers, an operator that runs them,
//! leader election, events, webhooks and metrics.
//!
//! Works with any cluster, through [`kube::Client`]. Most programs use it through the `windlass` crate.
//!
//! | module | contents |
//! |---|---|
//! | [`client`] | connection to the API server |
//! | [`key`], [`object`], [`scope`] | object names, the bound for watchable types, and what to watch of a kind |
//! | [`watch`] | list/watch of one resource, with recovery from all failures |
//! | [`cache`] | shared informers: one watch per resource and scope, indexed |
//! | [`queue`] | rate-limited work queue |
//! | [`controller`] | reconcilers, and the watches that trigger them |
//! | [`context`] | cached reads and writes for reconcilers |
//! | [`objects`] | owner references, finalizers, conditions |
//! | [`events`] | event recorder |
//! | [`lease`] | leader election and sharding |
//! | [`webhook`] | defaulting, validation and conversion webhooks |
//! | [`operator`] | all of the above in one process |
//! | [`clusters`] | operators of several clusters in one process |
//! | [`manifests`] | CRDs, RBAC, Deployment and webhook configurations of an operator |
//! | [`access`] | requests that no role allows, and the permissions that would allow them |
//! | [`migration`] | storage version migration of custom resources |
//! | [`metrics`] | Prometheus metrics under controller-runtime's names |
//! | [`shutdown`], [`error`] | graceful shutdown; errors of reconcilers |

pub mod access;
mod any_object;
pub mod cache;
pub mod client;
pub mod clusters;
pub mod context;
pub mod controller;
pub mod error;
pub mod events;
pub mod key;
pub mod lease;
pub mod manifests;
pub mod metrics;
pub mod migration;
pub mod object;
pub mod objects;
pub mod operator;
mod panic;
pub mod queue;
mod random;
pub mod scope;
pub mod shutdown;
mod token_bucket;
pub mod watch;
pub mod webhook;

pub use error::{Error, Result};
