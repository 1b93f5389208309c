//! A Kubernetes-compatible API server as a [`tower::Service`] over a [`windlass_store::Store`].
//!
//! [`Server`] is the entry point. Every request passes through one pipeline: authentication ([`user`]), parsing
//! (`request_info`), [`authorization`], the resource's endpoint in the `registry`, and the handler of its verb. Writes
//! run the stages that `write` lists; reads are answered from the caches in `storage` with the bytes that were stored.

pub mod admission;
mod aggregation;
pub mod audit;
pub mod authentication;
pub mod authorization;
mod blocking;
pub mod body;
mod bootstrap;
mod call;
mod compaction;
pub mod computed;
mod connections;
mod continue_token;
mod custom;
mod debug_pages;
mod definitions;
mod deprecation;
mod discovery;
mod dynamic_admission;
mod endpoint;
mod entity_tag;
mod fingerprint;
mod flow_control;
#[doc(hidden)]
pub mod fuzzing;
mod handle;
mod handshake;
mod health;
pub(crate) mod kubeconfig;
mod limits;
mod meta;
mod metrics;
mod negotiate;
pub mod node_connections;
mod old_definitions;
mod openapi;
mod options;
mod pieces;
pub mod pod_connections;
mod policies;
pub mod public_key;
mod query;
mod registry;
mod reloads;
mod repair;
mod replicas;
mod represent;
mod request_info;
mod runtime_config;
mod selection;
mod server;
pub mod snapshot;
pub mod status;
mod storage;
mod subresource;
mod tls;
pub mod tokens;
mod upload;
pub mod user;
mod verbs;
pub mod webhooks;
mod write;

use windlass_builtins::verb;

pub use limits::Limits;
pub use runtime_config::{RuntimeConfig, RuntimeConfigError};
pub use server::{BoxError, BuildError, Server, ServerBuilder};
pub use windlass_builtins::{
    kinds::service::allocator::{InvalidNetwork, InvalidPortRange, NodePortRange, ServiceNetwork},
    verb::Verb,
};
