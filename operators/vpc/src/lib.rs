//! Carves the subnets of a `Vpc` and keeps track of its pods.
//!
//! The status lists as many subnets of equal size as were asked for, and the pods that carry the label of the Vpc. A split
//! that does not fit is refused in the status. A Vpc goes when the last of its pods has gone.

pub mod api;
pub mod controller;
pub mod operator;
pub mod subnets;
