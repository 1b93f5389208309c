//! Pod2, of `samples.windlass.dev`.

pub mod v1alpha1;

// The storage version, which the rest of the program uses.
pub use v1alpha1::*;
