//! Creates networks for `Network` resources, on a [`backend::Backend`].
//!
//! A network whose gateway is outside of it, or which overlaps with an older one in its namespace, is not created, and
//! says so in its status. It is created once the other network is deleted. A deleted Network is kept until the backend
//! has released it.

pub mod api;
pub mod backend;
pub mod controller;
pub mod operator;
pub mod plan;
