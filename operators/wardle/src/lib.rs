//! Kubernetes' sample-apiserver: Flunders and Fischers, in an API server of their own.
//!
//! A Flunder refers to another Flunder or to a Fischer. A Fischer lists names that no new Flunder may have.

pub mod api;
pub mod extension;
