//! Resource types, one module per kind.

pub mod fischer;
pub mod flunder;

/// The API group.
pub const GROUP: &str = "wardle.example.com";
