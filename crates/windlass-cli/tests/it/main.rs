//! The real binary, from the outside.

#![allow(clippy::unwrap_used, reason = "a test may exit this way")]

mod background;
mod crd;
mod demo;
mod deploy;
mod doctor;
mod drop_in;
mod failures;
mod generate;
mod golden;
mod import;
mod learn;
mod migrate;
mod plan;
mod process;
mod run;
mod scaffold;
mod serving;
mod storage;
mod store;
mod user;
