//! A metrics server: what nodes and pods use, for `kubectl top` and horizontal pod autoscalers.
//!
//! Kubelets report the CPU time and the memory of nodes and containers. The server reads that every 15 seconds, and
//! computes usage from the last two reports.

pub mod extension;
mod kubelets;

pub use self::kubelets::Kubelets;
