//! The built-in kinds of Kubernetes v1.36: their table of types and resources, and a small strategy per kind.

pub mod resource;
pub mod strategy;
