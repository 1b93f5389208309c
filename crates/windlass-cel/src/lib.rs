//! The Common Expression Language as Kubernetes has it: parsed, type-checked, costed, evaluated, and the
//! `x-kubernetes-validations` of structural schemas on top.
//!
//! Pure: no tokio, no network, no disk.

pub mod ast;
pub mod types;
