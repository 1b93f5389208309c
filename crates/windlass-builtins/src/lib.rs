//! The built-in kinds of Kubernetes v1.36: the generated table of types and resources, and a strategy and facts per
//! kind.

pub mod columns;
mod diff;
pub mod facts;
mod field_errors;
mod go_type;
pub mod kinds;
pub mod object;
pub mod openapi;
mod pem;
pub mod pod_security;
pub mod protobuf;
pub mod quota;
pub mod resource;
mod resource_list;
pub mod strategy;
pub mod table;
pub mod upgrade;
pub mod validate;
pub mod verb;

pub use table::table;
