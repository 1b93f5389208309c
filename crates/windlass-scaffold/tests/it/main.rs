//! Integration tests of the scaffold.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(unreachable_pub, reason = "imported types are those of a library")]

mod golden;
mod import;
mod package;
mod release;
