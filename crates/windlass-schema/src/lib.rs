//! Schemas of Kubernetes objects: the shape of built-in types, and what it means for a body to fit one.
//!
//! Pure: no tokio, no network, no disk.

pub mod field;
pub mod types;
