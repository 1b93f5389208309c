//! Resource types.

pub mod foo;
