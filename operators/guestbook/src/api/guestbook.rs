//! Guestbook, of `webapp.tutorial.kubebuilder.io`.

pub mod v1;

// The storage version, which the rest of the program uses.
pub use v1::*;
