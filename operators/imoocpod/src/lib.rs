//! Keeps exactly as many pods as an `ImoocPod` asks for.
//!
//! Pods belong to the resource. Too many: the newest are deleted, all at once. Pods that are being deleted do not
//! count, pods that have ended are replaced. `kubectl scale` works.

pub mod api;
pub mod controller;
pub mod operator;
