//! Guestbook of the API group `webapp.example.com`.

pub mod v1;

// The storage version, which the rest of the operator uses.
pub use v1::*;
