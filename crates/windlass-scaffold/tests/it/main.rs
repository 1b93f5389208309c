//! The scaffold as a whole.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod golden;
mod import;
mod package;
