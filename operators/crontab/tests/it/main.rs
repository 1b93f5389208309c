//! Integration tests.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod runs;
