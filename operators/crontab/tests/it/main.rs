//! The operator on a control plane of the test's own.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod runs;
