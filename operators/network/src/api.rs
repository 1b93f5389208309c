//! Resource types.

pub mod network;
