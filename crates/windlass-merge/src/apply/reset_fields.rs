//! Reset fields: fields that a write through an endpoint cannot change, because the server restores their previous
//! values. Such a write does not acquire ownership of them.

use std::sync::LazyLock;

use super::{path::Path, set::Set};

/// The reset fields of an endpoint, per version that has any.
#[derive(Debug, Clone, Default)]
pub struct ResetFields {
    every_version: Option<Set>,
    versions: Vec<(String, Set)>,
}

impl ResetFields {
    /// Returns none: the endpoint can change every field.
    pub fn none() -> &'static Self {
        static NONE: ResetFields = ResetFields { every_version: None, versions: Vec::new() };
        &NONE
    }

    /// Returns those of a custom resource's main endpoint, in the version of the request.
    pub fn of_custom_resource(api_version: &str, has_status: bool) -> Self {
        let mut fields = Self::default();
        if has_status {
            fields.versions.push((api_version.to_owned(), set(&["status"])));
        }
        fields
    }

    /// Returns those of a custom resource's status endpoint, given all versions that have the status subresource.
    pub fn of_custom_resource_status<'a>(api_versions: impl IntoIterator<Item = &'a str>) -> Self {
        let fields = || set(&["metadata", "spec"]);
        let versions = api_versions.into_iter().map(|version| (version.to_owned(), fields())).collect();
        Self { every_version: None, versions }
    }

    /// Returns those of a built-in kind's endpoint: the object itself (an empty subresource) or one of its
    /// subresources.
    pub fn of_builtin(group: &str, plural: &str, subresource: &str) -> &'static Self {
        let found = BUILTINS.iter().find(|(names, _)| *names == (group, plural, subresource));
        found.map_or(Self::none(), |(_, fields)| fields)
    }

    /// Returns the reset fields, for paths of a version.
    pub(crate) fn of_version(&self, api_version: &str) -> Option<&Set> {
        let found = self.versions.iter().find(|(version, _)| version == api_version);
        found.map(|(_, fields)| fields).or(self.every_version.as_ref())
    }
}

/// Returns the set of these fields, given as names joined by dots.
fn set(paths: &[&str]) -> Set {
    paths.iter().map(|path| Path::fields(path.split('.'))).collect()
}

type Endpoint = (&'static str, &'static str, &'static str);

static BUILTINS: LazyLock<Vec<(Endpoint, ResetFields)>> = LazyLock::new(|| {
    let mut endpoints = Vec::new();
    let mut add = |endpoint: Endpoint, fields: Set| {
        endpoints.push((endpoint, ResetFields { every_version: Some(fields), versions: Vec::new() }));
    };
    for (group, plural, status) in KINDS_WITH_STATUS {
        add((group, plural, ""), set(&["status"]));
        add((group, plural, "status"), set(status));
    }
    let csr = ("certificates.k8s.io", "certificatesigningrequests");
    add((csr.0, csr.1, ""), set(&["spec", "status"]));
    add((csr.0, csr.1, "status"), set(&["spec", "status.conditions"]));
    add((csr.0, csr.1, "approval"), set(&["spec", "status.certificate"]));
    add((csr.0, "podcertificaterequests", "status"), set(&["spec"]));
    add(("", "namespaces", "finalize"), set(&["status"]));
    endpoints
});

/// Kinds whose main endpoint resets the status, each with the fields that its status endpoint resets.
const KINDS_WITH_STATUS: &[(&str, &str, &[&str])] = &[
    ("", "namespaces", &["spec"]),
    ("", "nodes", &["spec"]),
    ("", "persistentvolumeclaims", &["spec"]),
    ("", "persistentvolumes", &["spec"]),
    ("", "pods", &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]),
    ("", "replicationcontrollers", &["spec"]),
    ("", "resourcequotas", &["spec"]),
    ("", "services", &["spec"]),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", &["spec", "metadata"]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &["spec"]),
    ("apiregistration.k8s.io", "apiservices", &["spec", "metadata"]),
    ("apps", "daemonsets", &["spec"]),
    ("apps", "deployments", &["spec", "metadata.labels"]),
    ("apps", "replicasets", &["spec"]),
    ("apps", "statefulsets", &["spec"]),
    ("autoscaling", "horizontalpodautoscalers", &["spec"]),
    ("batch", "cronjobs", &["spec"]),
    ("batch", "jobs", &["spec"]),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", &["spec", "metadata"]),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", &["spec", "metadata"]),
    ("internal.apiserver.k8s.io", "storageversions", &["spec", "metadata"]),
    ("networking.k8s.io", "ingresses", &["spec"]),
    ("networking.k8s.io", "servicecidrs", &["spec", "metadata"]),
    ("policy", "poddisruptionbudgets", &["spec"]),
    ("resource.k8s.io", "devicetaintrules", &["spec", "metadata"]),
    ("resource.k8s.io", "resourceclaims", &["spec", "metadata"]),
    ("scheduling.k8s.io", "podgroups", &["spec", "metadata"]),
    ("storage.k8s.io", "volumeattachments", &["spec", "metadata"]),
    ("storagemigration.k8s.io", "storageversionmigrations", &["spec", "metadata"]),
];
