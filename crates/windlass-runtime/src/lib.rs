//! What a Kubernetes operator is made of: informers, a work queue, controllers, an operator that runs them, leases,
//! events, webhooks, metrics.
//!
//! It speaks to any cluster through [`kube::Client`]. Most programs use it through the `windlass` crate.
//!
//! | module | |
//! |---|---|
//! | [`client`] | the connection to the API server |
//! | [`key`], [`object`], [`scope`] | names of objects, what can be watched, and how much of it |
//! | [`watch`] | lists and watches one resource, for as long as asked |
//! | [`cache`] | one watch per resource and scope, kept in memory, indexed, shared |
//! | [`queue`] | which keys are to be worked on, and when |
//! | [`controller`] | from events to keys to reconciles |
//! | [`context`] | what a reconcile reads and writes with |
//! | [`objects`] | owners, finalizers, conditions |
//! | [`events`] | what people see in `kubectl describe` |
//! | [`lease`] | who leads, and who has which keys |
//! | [`webhook`] | defaulting, validation and conversion over HTTPS |
//! | [`operator`] | all of the above in one process |
//! | [`manifests`] | what a cluster needs to run it |
//! | [`metrics`] | numbers, under controller-runtime's names |
//! | [`shutdown`], [`error`] | how a process ends; why a reconcile failed |

mod any_object;
pub mod cache;
pub mod client;
pub mod context;
pub mod controller;
pub mod error;
pub mod events;
pub mod key;
pub mod lease;
pub mod manifests;
pub mod metrics;
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
