//! The Common Expression Language (CEL) as implemented by Kubernetes: parsing, type checking, cost estimation and
//! evaluation, and the `x-kubernetes-validations` of structural schemas.
//!
//! Pure: no tokio, no network, no disk.

pub mod ast;
pub mod authentication;
pub mod authorizer;
pub mod checker;
mod condition;
pub mod cost;
pub mod declarations;
pub mod declared;
pub mod device_selectors;
pub mod interpreter;
mod library;
pub mod match_conditions;
pub mod parser;
pub mod policy;
pub mod review_conditions;
pub mod rules;
mod runtime_cost;
pub mod source;
pub mod types;
pub mod value;
