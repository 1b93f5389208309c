//! Objects for tests.
//!
//! ```
//! use windlass_testing::fixtures::{self, Fixture};
//!
//! let web = fixtures::deployment("web", 3).labelled("tier", "front").finalized("example.com/hold");
//! assert_eq!(web.spec.unwrap().replicas, Some(3));
//! ```

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        batch::v1::{Job, JobSpec},
        core::v1::{
            ConfigMap, Container, ContainerPort, Namespace, Pod, PodSpec, PodTemplateSpec, Secret, Service,
            ServicePort, ServiceSpec,
        },
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kube::{Resource, ResourceExt, core::ObjectMeta};

/// Builder methods for the metadata of any object.
pub trait Fixture: Resource + Sized {
    /// Adds a label.
    #[must_use]
    fn labelled(mut self, key: &str, value: &str) -> Self {
        self.labels_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds an annotation.
    #[must_use]
    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a finalizer.
    #[must_use]
    fn finalized(mut self, finalizer: &str) -> Self {
        self.finalizers_mut().push(finalizer.to_owned());
        self
    }

    /// Sets the namespace.
    #[must_use]
    fn within(mut self, namespace: &str) -> Self {
        self.meta_mut().namespace = Some(namespace.to_owned());
        self
    }

    /// Adds a controller owner reference to an existing object.
    ///
    /// # Panics
    ///
    /// If the owner has no name or UID.
    #[must_use]
    fn controlled_by<O: Resource<DynamicType = ()>>(mut self, owner: &O) -> Self {
        let owner = owner.controller_owner_ref(&()).expect("an owner must have a name and a UID");
        self.owner_references_mut().push(owner);
        self
    }
}

impl<K: Resource> Fixture for K {}

/// Image of all containers in this module.
pub const IMAGE: &str = "registry.example.com/app:1";

/// Returns a Namespace.
pub fn namespace(name: &str) -> Namespace {
    Namespace { metadata: named(name), ..Namespace::default() }
}

/// Returns a ConfigMap with one entry.
pub fn config_map(name: &str, key: &str, value: &str) -> ConfigMap {
    let data = [(key.to_owned(), value.to_owned())].into();
    ConfigMap { metadata: named(name), data: Some(data), ..ConfigMap::default() }
}

/// Returns a Secret with one entry.
pub fn secret(name: &str, key: &str, value: &str) -> Secret {
    let data = [(key.to_owned(), value.to_owned())].into();
    Secret { metadata: named(name), string_data: Some(data), ..Secret::default() }
}

/// Returns a Pod with a container `main`, and its name as the label `app`.
pub fn pod(name: &str) -> Pod {
    Pod { metadata: labelled_app(name), spec: Some(pod_spec()), ..Pod::default() }
}

/// Returns a Deployment whose pods have its name as the label `app`.
pub fn deployment(name: &str, replicas: i32) -> Deployment {
    let template = PodTemplateSpec { metadata: Some(labels(name)), spec: Some(pod_spec()) };
    let spec = DeploymentSpec { replicas: Some(replicas), selector: selector(name), template, ..Default::default() };
    Deployment { metadata: labelled_app(name), spec: Some(spec), ..Deployment::default() }
}

/// Returns a Job with one pod.
pub fn job(name: &str) -> Job {
    let spec = PodSpec { restart_policy: Some("Never".to_owned()), ..pod_spec() };
    let spec = JobSpec { template: PodTemplateSpec { metadata: None, spec: Some(spec) }, ..JobSpec::default() };
    Job { metadata: named(name), spec: Some(spec), ..Job::default() }
}

/// Returns a Service that selects the pods with its name as the label `app`: port 80 to their port 8080.
pub fn service(name: &str) -> Service {
    let port = ServicePort { port: 80, target_port: Some(IntOrString::Int(8080)), ..ServicePort::default() };
    let spec = ServiceSpec { selector: Some(app(name)), ports: Some(vec![port]), ..ServiceSpec::default() };
    Service { metadata: named(name), spec: Some(spec), ..Service::default() }
}

fn pod_spec() -> PodSpec {
    let port = ContainerPort { container_port: 8080, ..ContainerPort::default() };
    let container = Container {
        name: "main".to_owned(),
        image: Some(IMAGE.to_owned()),
        ports: Some(vec![port]),
        ..Container::default()
    };
    PodSpec { containers: vec![container], ..PodSpec::default() }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn app(name: &str) -> BTreeMap<String, String> {
    [("app".to_owned(), name.to_owned())].into()
}

fn labels(name: &str) -> ObjectMeta {
    ObjectMeta { labels: Some(app(name)), ..ObjectMeta::default() }
}

fn labelled_app(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..labels(name) }
}

fn selector(name: &str) -> LabelSelector {
    LabelSelector { match_labels: Some(app(name)), ..LabelSelector::default() }
}
