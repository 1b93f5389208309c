//! PodTask of the API group `ops.windlass.dev`.

pub mod v1alpha1;

// The storage version, which the rest of the operator uses.
pub use v1alpha1::*;
