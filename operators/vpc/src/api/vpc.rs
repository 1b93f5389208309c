//! Vpc of the API group `network.example.com`.

pub mod v1;

// The storage version, which the rest of the operator uses.
pub use v1::*;
