//! Runs the containers of a `Pod2` as processes of this machine.
//!
//! `life` is pure: from what has become of the containers to the phase, and whether and when one is started again.
//! `process` starts and ends processes, `supervisor` keeps those of each Pod2 running, `controller` tells the API server.

pub mod api;
pub mod controller;
pub mod life;
pub mod operator;
mod process;
pub mod supervisor;
