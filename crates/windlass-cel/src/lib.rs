//! The Common Expression Language as Kubernetes has it: parsed, type-checked, costed, evaluated, and the
//! `x-kubernetes-validations` of structural schemas on top.
//!
//! Pure: no tokio, no network, no disk.

pub mod admission;
pub mod ast;
pub mod checker;
pub mod cost;
pub mod declarations;
pub mod declared;
pub mod interpreter;
mod library;
pub mod parser;
pub mod rules;
mod runtime_cost;
pub mod source;
pub mod types;
pub mod value;
