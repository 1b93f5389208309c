//! Integration tests: each runs against its own control plane.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod apiserver;
mod kubelets;
