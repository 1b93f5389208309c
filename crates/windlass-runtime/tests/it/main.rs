//! The runtime against an API server: the embedded one in this process, or any cluster that `WINDLASS_TEST_KUBECONFIG`
//! names.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cache;
mod client;
mod cluster;
mod clusters;
mod context;
mod controller;
mod events;
mod faults;
mod lease;
mod manifests;
mod migration;
mod operator;
mod restarts;
mod watch;
mod webhook;
