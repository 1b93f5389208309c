//! Resource types.

pub mod pod2;
