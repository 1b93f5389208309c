//! ImoocPod of the API group `k8s.example.com`.

pub mod v1alpha1;

// The storage version, which the rest of the operator uses.
pub use v1alpha1::*;
