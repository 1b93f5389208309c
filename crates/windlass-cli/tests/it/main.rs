//! The real binary, from the outside.

#![allow(clippy::unwrap_used, reason = "a test may end so")]

mod background;
mod crd;
mod failures;
mod process;
mod scaffold;
mod serving;
