//! Makes networks of `Network` resources, behind a [`backend::Backend`].
//!
//! A network whose gateway is not in it, or which overlaps with an older one of its namespace, is not made, and says so
//! in its status; it is made when the other is gone. A network that is deleted stays until the backend has released it.

pub mod api;
pub mod backend;
pub mod controller;
pub mod operator;
pub mod plan;
