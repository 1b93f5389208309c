//! Splits a `Vpc` into subnets and keeps track of its pods.
//!
//! The status lists the requested number of equal subnets, and the pods that have the label of the Vpc. If the subnets
//! do not fit, the status says so. A deleted Vpc is kept until its last pod is deleted.

pub mod api;
pub mod controller;
pub mod operator;
pub mod subnets;
