//! Resource types.

pub mod pod_task;
