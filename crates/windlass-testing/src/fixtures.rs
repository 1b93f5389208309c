//! Objects for tests, made in few words.
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

/// Words for the metadata of any object.
pub trait Fixture: Resource + Sized {
    /// With a label.
    #[must_use]
    fn labelled(mut self, key: &str, value: &str) -> Self {
        self.labels_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    /// With an annotation.
    #[must_use]
    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    /// With a finalizer.
    #[must_use]
    fn finalized(mut self, finalizer: &str) -> Self {
        self.finalizers_mut().push(finalizer.to_owned());
        self
    }

    /// In a namespace.
    #[must_use]
    fn within(mut self, namespace: &str) -> Self {
        self.meta_mut().namespace = Some(namespace.to_owned());
        self
    }

    /// Controlled by an object that the server has.
    ///
    /// # Panics
    ///
    /// If the owner has no name or uid.
    #[must_use]
    fn controlled_by<O: Resource<DynamicType = ()>>(mut self, owner: &O) -> Self {
        let owner = owner.controller_owner_ref(&()).expect("an owner must have a name and a uid");
        self.owner_references_mut().push(owner);
        self
    }
}

impl<K: Resource> Fixture for K {}

/// The image of all containers here; what it does is up to what runs the pod.
pub const IMAGE: &str = "registry.example.com/app:1";

/// A namespace.
pub fn namespace(name: &str) -> Namespace {
    Namespace { metadata: named(name), ..Namespace::default() }
}

/// A map of one value.
pub fn config_map(name: &str, key: &str, value: &str) -> ConfigMap {
    let data = [(key.to_owned(), value.to_owned())].into();
    ConfigMap { metadata: named(name), data: Some(data), ..ConfigMap::default() }
}

/// A secret of one value.
pub fn secret(name: &str, key: &str, value: &str) -> Secret {
    let data = [(key.to_owned(), value.to_owned())].into();
    Secret { metadata: named(name), string_data: Some(data), ..Secret::default() }
}

/// A pod with a container `main`, and the label `app` with its name.
pub fn pod(name: &str) -> Pod {
    Pod { metadata: labelled_app(name), spec: Some(pod_spec()), ..Pod::default() }
}

/// A deployment whose pods have the label `app` with its name.
pub fn deployment(name: &str, replicas: i32) -> Deployment {
    let template = PodTemplateSpec { metadata: Some(labels(name)), spec: Some(pod_spec()) };
    let spec = DeploymentSpec { replicas: Some(replicas), selector: selector(name), template, ..Default::default() };
    Deployment { metadata: labelled_app(name), spec: Some(spec), ..Deployment::default() }
}

/// A job of one pod.
pub fn job(name: &str) -> Job {
    let spec = PodSpec { restart_policy: Some("Never".to_owned()), ..pod_spec() };
    let spec = JobSpec { template: PodTemplateSpec { metadata: None, spec: Some(spec) }, ..JobSpec::default() };
    Job { metadata: named(name), spec: Some(spec), ..Job::default() }
}

/// A service of the pods with the label `app` of its name: port 80, to their port 8080.
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
