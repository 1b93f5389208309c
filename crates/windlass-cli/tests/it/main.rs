//! The real binary, from the outside.

#![allow(clippy::unwrap_used, reason = "a test may end so")]

mod crd;
mod failures;
mod import;
mod learn;
mod process;
mod scaffold;
mod serving;
