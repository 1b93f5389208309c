//! Performs one-off actions on pods, as requested by a `PodTask`.
//!
//! A task starts by recording the UID of its target pod: it acts on that pod or on none. Actions are idempotent, so an
//! operator that is stopped in the middle of one resumes it.

pub mod actions;
pub mod api;
pub mod controller;
pub mod operator;
