//! The runtimes written in Rust, and what no runtime can go below.

pub(crate) mod floor;
pub(crate) mod kube_runtime;
pub(crate) mod windlass;
