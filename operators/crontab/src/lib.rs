//! Runs Jobs when a `CronTab` says so.
//!
//! `schedule` decides what is due, `runs` what is to become of the Jobs there are: both are pure. `controller` does it.
//! The book builds it step by step: `docs/src/tutorial`.

pub mod api;
pub mod controller;
pub mod operator;
pub mod runs;
pub mod schedule;
