//! Nodes against a server.

mod processes;
mod resize;
mod scheduler;
pub(crate) mod simulated;
