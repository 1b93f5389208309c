//! The index of strategies: one for every built-in resource.
//!
//! A kind with rules of its own has a file under `kinds/`; every other resource gets its entry of the table in
//! [`generic`], which knows the name rule, generation and update rules of all built-in resources.

pub mod autoscaler;
pub mod certificate_signing_request;
pub mod columns_table;
pub mod config_map;
pub mod controller_revision;
pub mod custom_resource_definition;
pub mod deployment;
pub mod endpoint_slice;
pub mod endpoints;
pub mod event;
pub mod generic;
pub mod lease;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod pod_template;
pub mod replica_set;
pub mod scale;
pub mod secret;
pub mod service;
pub mod service_account;

use crate::strategy::Strategy;

/// The strategy of a resource. Every group and resource has one; an unknown pair gets the plain defaults.
pub fn strategy(group: &str, resource: &str) -> &'static dyn Strategy {
    match (group, resource) {
        // One line a kind that has a file of its own, in the order of discovery.
        ("", "configmaps") => &config_map::ConfigMap,
        ("", "endpoints") => &endpoints::Endpoints,
        ("", "events") => &event::CoreEvent,
        ("events.k8s.io", "events") => &event::EventsEvent,
        ("", "namespaces") => &namespace::Namespace,
        ("", "nodes") => &node::Node,
        ("", "pods") => &pod::Pod,
        ("", "secrets") => &secret::Secret,
        ("", "services") => &service::Service,
        ("", "serviceaccounts") => &service_account::ServiceAccount,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &custom_resource_definition::CustomResourceDefinition,
        ("certificates.k8s.io", "certificatesigningrequests") => {
            &certificate_signing_request::CertificateSigningRequest
        }
        ("coordination.k8s.io", "leases") => &lease::Lease,
        ("discovery.k8s.io", "endpointslices") => &endpoint_slice::EndpointSlice,
        ("apps", "controllerrevisions") => &controller_revision::ControllerRevision,
        ("apps", "deployments") => &deployment::Deployment,
        ("apps", "replicasets") => &replica_set::ReplicaSet,
        _ => generic::strategy(group, resource),
    }
}

#[cfg(test)]
mod tests;
