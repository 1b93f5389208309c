//! Network, of `samplecrd.k8s.io`.

pub mod v1;

// The storage version, which the rest of the program uses.
pub use v1::*;
