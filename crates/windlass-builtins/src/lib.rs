//! The built-in kinds of Kubernetes v1.36: their table of types and resources, and a small strategy per kind.

pub mod check;
pub mod columns;
pub mod kinds;
pub mod object;
pub mod openapi;
mod pem;
pub mod protobuf;
pub mod quota;
pub mod resource;
pub mod strategy;
pub mod table;
pub mod upgrade;

pub use table::table;
