//! Network of the API group `samplecrd.k8s.io`.

pub mod v1;

// The storage version, which the rest of the operator uses.
pub use v1::*;
