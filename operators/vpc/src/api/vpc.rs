//! Vpc, of `network.example.com`.

pub mod v1;

// The storage version, which the rest of the program uses.
pub use v1::*;
