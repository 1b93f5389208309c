//! The runtimes written in Rust, and the floor that no runtime can beat.

pub(crate) mod floor;
pub(crate) mod kube_runtime;
pub(crate) mod windlass;
