//! Kubernetes' sample-controller: a Deployment for every `Foo`.
//!
//! The Foo names its Deployment and owns it. An existing Deployment with that name and another owner is left alone,
//! with a warning. Changed replicas are restored. If the Foo names another Deployment, that one is created and the old
//! one is deleted.

#![allow(clippy::disallowed_names, reason = "the resource is called Foo")]

pub mod api;
pub mod controller;
pub mod operator;
