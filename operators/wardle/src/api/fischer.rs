//! Fischer of the API group `wardle.example.com`.

pub mod v1alpha1;

// The storage version, which the rest of the server uses.
pub use v1alpha1::*;
