//! Foo of the API group `samplecontroller.k8s.io`.

pub mod v1alpha1;

// The storage version, which the rest of the operator uses.
pub use v1alpha1::*;
