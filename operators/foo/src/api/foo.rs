//! Foo, of `samplecontroller.k8s.io`.

pub mod v1alpha1;

// The storage version, which the rest of the program uses.
pub use v1alpha1::*;
