//! The runtimes written in Rust.

pub(crate) mod kube_runtime;
pub(crate) mod windlass;
