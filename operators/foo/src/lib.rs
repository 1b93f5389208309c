//! The sample-controller of Kubernetes: a Deployment for every `Foo`.
//!
//! The Deployment is named in the Foo and belongs to it. One of that name that is somebody else's is left alone, with a
//! warning; changed replicas are repaired; another name in the Foo means another Deployment, and the old one goes.

#![allow(clippy::disallowed_names, reason = "the resource is called Foo")]

pub mod api;
pub mod controller;
pub mod operator;
