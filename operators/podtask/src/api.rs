//! Resource types, one module per kind.

pub mod pod_task;
