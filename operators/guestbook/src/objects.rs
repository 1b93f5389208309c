//! The objects of a guestbook.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            ConfigMap, ConfigMapEnvSource, Container, ContainerPort, EnvFromSource, EnvVar, PodSpec, PodTemplateSpec,
            Service, ServicePort, ServiceSpec,
        },
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kube::{ResourceExt, api::ObjectMeta};

use crate::api::guestbook::Guestbook;

/// Label with the name of the Guestbook that a pod belongs to.
pub const LABEL: &str = "webapp.tutorial.kubebuilder.io/guestbook";
/// Pod annotation with a fingerprint of the settings.
pub const SETTINGS: &str = "webapp.tutorial.kubebuilder.io/settings";
const IMAGE: &str = "registry.k8s.io/guestbook:v3";
const PORT: i32 = 3000;

/// Returns the Deployment of a guestbook.
pub fn deployment(guestbook: &Guestbook, settings: &ConfigMap) -> Deployment {
    let container = Container {
        name: "guestbook".to_owned(),
        image: Some(IMAGE.to_owned()),
        ports: Some(vec![ContainerPort { container_port: PORT, ..ContainerPort::default() }]),
        env: Some(vec![EnvVar {
            name: "ENTRY_KIND".to_owned(),
            value: Some(format!("{:?}", guestbook.spec.kind)),
            ..EnvVar::default()
        }]),
        env_from: Some(vec![EnvFromSource {
            config_map_ref: Some(ConfigMapEnvSource { name: settings.name_any(), ..ConfigMapEnvSource::default() }),
            ..EnvFromSource::default()
        }]),
        ..Container::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(guestbook)),
            annotations: Some([(SETTINGS.to_owned(), fingerprint(settings))].into()),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
    };
    Deployment {
        metadata: named(guestbook),
        spec: Some(DeploymentSpec {
            replicas: Some(guestbook.spec.size),
            selector: LabelSelector { match_labels: Some(labels(guestbook)), ..LabelSelector::default() },
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// Returns the Service of a guestbook.
pub fn service(guestbook: &Guestbook) -> Service {
    let port = ServicePort {
        name: Some("http".to_owned()),
        port: 80,
        target_port: Some(IntOrString::Int(PORT)),
        ..ServicePort::default()
    };
    Service {
        metadata: named(guestbook),
        spec: Some(ServiceSpec {
            selector: Some(labels(guestbook)),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Returns the URL of a guestbook within the cluster.
pub fn url(guestbook: &Guestbook) -> String {
    format!("http://{}.{}.svc", guestbook.name_any(), guestbook.namespace().unwrap_or_default())
}

fn named(guestbook: &Guestbook) -> ObjectMeta {
    ObjectMeta { name: Some(guestbook.name_any()), labels: Some(labels(guestbook)), ..ObjectMeta::default() }
}

fn labels(guestbook: &Guestbook) -> BTreeMap<String, String> {
    [(LABEL.to_owned(), guestbook.name_any())].into()
}

/// Returns a fingerprint of the settings. The hasher has fixed keys, so it is the same in every process.
fn fingerprint(settings: &ConfigMap) -> String {
    let mut hasher = DefaultHasher::new();
    settings.data.hash(&mut hasher);
    for (key, value) in settings.binary_data.iter().flatten() {
        (key, &value.0).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn other_settings_have_another_fingerprint() {
        let map = |key: &str, value: &str| ConfigMap {
            data: Some([(key.to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        };
        let binary = ConfigMap {
            binary_data: Some([("a".to_owned(), ByteString(b"b".to_vec()))].into()),
            ..ConfigMap::default()
        };
        let all = [map("a", "b"), map("a", "c"), map("b", "b"), binary, ConfigMap::default()];
        let distinct: std::collections::BTreeSet<_> = all.iter().map(fingerprint).collect();
        assert_eq!(distinct.len(), all.len());
        let mut renamed = map("a", "b");
        renamed.metadata.resource_version = Some("7".to_owned());
        assert_eq!(fingerprint(&renamed), fingerprint(&all[0]));
    }
}
