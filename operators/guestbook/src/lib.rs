//! Runs the guestbook of the kubebuilder quick start.
//!
//! A Guestbook has a Deployment whose pods read a ConfigMap, and a Service. Both are repaired when somebody changes them;
//! pods are replaced when the ConfigMap changes. The status says where the guestbook is and which pods serve it.

pub mod api;
pub mod controller;
pub mod objects;
pub mod operator;
