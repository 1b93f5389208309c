//! Runs Jobs on the schedule of a `CronTab`.
//!
//! `schedule` decides which run is due, and `runs` which Jobs to keep: both are pure. `controller` carries it out. The
//! book builds this operator step by step: `docs/src/tutorial`.

pub mod api;
pub mod controller;
pub mod operator;
pub mod runs;
pub mod schedule;
