//! A Kubernetes-compatible API server as a [`tower::Service`] over a [`windlass_store::Store`].
//!
//! [`Server`] is the way in. A request goes through one pipeline: who asks ([`user`]), what for (`request_info`), the
//! resource's endpoint from the `registry`, decoding, admission, the kind's strategy, validation, a compare-and-swap in
//! the store; reads come from the caches in `storage` as the bytes that were stored.

pub mod admission;
pub mod authorization;
pub mod body;
mod bootstrap;
mod call;
mod compaction;
mod continue_token;
mod custom;
mod definitions;
mod discovery;
mod endpoint;
mod handle;
mod health;
mod heavy;
mod meta;
mod metrics;
mod negotiate;
mod old_definitions;
mod openapi;
mod options;
pub mod pod_connections;
mod query;
mod registry;
mod represent;
mod request_info;
mod selection;
mod server;
pub mod status;
mod storage;
mod subresource;
mod tls;
pub mod tokens;
pub mod user;
mod verb;
mod verbs;
pub mod webhooks;
mod write;

pub use server::{BoxError, BuildError, Server, ServerBuilder};
pub use verb::Verb;
