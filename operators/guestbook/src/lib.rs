//! The guestbook of the kubebuilder quick start.
//!
//! A Guestbook owns a Deployment, whose pods read a ConfigMap, and a Service. Changes to either are reverted, and pods
//! are replaced when the ConfigMap changes. The status has the URL of the guestbook and its number of ready pods.

pub mod api;
pub mod controller;
pub mod objects;
pub mod operator;
