//! Reset fields: fields that a write through an endpoint cannot change, because the server restores their previous
//! values. Such a write does not acquire ownership of them.

use std::sync::LazyLock;

use super::{
    path::Path,
    set::{Filter, Matcher, Pattern},
};

/// The filters of an endpoint, one per version that has one.
#[derive(Debug, Clone, Default)]
pub struct ResetFields {
    every_version: Option<Filter>,
    versions: Vec<(String, Filter)>,
}

impl ResetFields {
    /// Returns no filters: the endpoint can change every field.
    pub fn none() -> &'static Self {
        static NONE: ResetFields = ResetFields { every_version: None, versions: Vec::new() };
        &NONE
    }

    /// Returns the filters of a custom resource's main endpoint, in the version of the request.
    pub fn of_custom_resource(api_version: &str, has_status: bool) -> Self {
        let mut fields = Self::default();
        if has_status {
            fields.versions.push((api_version.to_owned(), exclude(&["status"])));
        }
        fields
    }

    /// Returns the filters of a custom resource's status endpoint, given all versions that have the status subresource.
    pub fn of_custom_resource_status<'a>(api_versions: impl IntoIterator<Item = &'a str>) -> Self {
        let filter = || exclude(&["metadata", "spec"]);
        let versions = api_versions.into_iter().map(|version| (version.to_owned(), filter())).collect();
        Self { every_version: None, versions }
    }

    /// Returns the filters of a built-in kind's endpoint: the object itself (an empty subresource) or one of its
    /// subresources.
    pub fn of_builtin(group: &str, plural: &str, subresource: &str) -> &'static Self {
        let found = BUILTINS.iter().find(|(names, _)| *names == (group, plural, subresource));
        found.map_or(Self::none(), |(_, fields)| fields)
    }

    /// Returns the filter for field paths of a version.
    pub(crate) fn filter(&self, api_version: &str) -> Option<&Filter> {
        let found = self.versions.iter().find(|(version, _)| version == api_version);
        found.map(|(_, filter)| filter).or(self.every_version.as_ref())
    }
}

/// Returns a filter that excludes fields, given as names joined by dots.
fn exclude(paths: &[&str]) -> Filter {
    Filter::Exclude(paths.iter().map(|path| Path::fields(path.split('.'))).collect())
}

/// Returns a filter that keeps the fields below one of these prefixes, in which `*` matches any element.
fn include(prefixes: &[&str]) -> Filter {
    let pattern = |name: &str| if name == "*" { Pattern::Any } else { Pattern::field(name) };
    let matcher = |prefix: &&str| Matcher::prefix(prefix.split('.').map(pattern).collect::<Vec<_>>());
    Filter::include(prefixes.iter().map(matcher))
}

type Endpoint = (&'static str, &'static str, &'static str);

static BUILTINS: LazyLock<Vec<(Endpoint, ResetFields)>> = LazyLock::new(|| {
    let mut endpoints = Vec::new();
    let mut add = |endpoint: Endpoint, filter: Filter| {
        endpoints.push((endpoint, ResetFields { every_version: Some(filter), versions: Vec::new() }));
    };
    for (group, plural, status) in KINDS_WITH_STATUS {
        add((group, plural, ""), exclude(&["status"]));
        add((group, plural, "status"), exclude(status));
    }
    let csr = ("certificates.k8s.io", "certificatesigningrequests");
    add((csr.0, csr.1, ""), exclude(&["spec", "status"]));
    add((csr.0, csr.1, "status"), exclude(&["spec", "status.conditions"]));
    add((csr.0, csr.1, "approval"), exclude(&["spec", "status.certificate"]));
    add((csr.0, "podcertificaterequests", "status"), exclude(&["spec"]));
    add(("", "namespaces", "finalize"), exclude(&["status"]));
    add(("", "pods", "ephemeralcontainers"), include(&["spec.ephemeralContainers"]));
    let resize = [
        "spec.containers.*.resources",
        "spec.containers.*.resizePolicy",
        "spec.initContainers.*.resources",
        "spec.initContainers.*.resizePolicy",
    ];
    add(("", "pods", "resize"), include(&resize));
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
