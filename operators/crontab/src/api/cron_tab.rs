//! CronTab, of `stable.example.com`.

pub mod v1;

// The version that is stored, and that the rest of the program works with.
pub use v1::*;
