//! Maintains exactly as many pods as an `ImoocPod` specifies.
//!
//! The resource owns its pods. Surplus pods are deleted at once, newest first. Pods that are being deleted do not
//! count, and finished pods are replaced. `kubectl scale` works.

pub mod api;
pub mod controller;
pub mod operator;
