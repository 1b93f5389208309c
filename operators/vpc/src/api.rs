//! Resource types.

pub mod vpc;
