//! Nodes against a server.

mod processes;
mod scheduler;
pub(crate) mod simulated;
