//! Runs the containers of a `Pod2` as processes on this machine.
//!
//! `life` is pure: it derives the phase from the state of the containers, and whether and when one is restarted.
//! `process` starts and ends processes, `containers` is the daemon that keeps those of a Pod2 running, and `controller`
//! reports to the API server.

pub mod api;
mod containers;
pub mod controller;
pub mod life;
pub mod operator;
mod process;
