//! Built-in kinds that controllers can be scaffolded for: every stored kind that k8s-openapi has a type for.

use crate::ScaffoldError;

/// A built-in Kubernetes kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Builtin {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
    /// Module of k8s-openapi, relative to the crate root.
    pub(crate) module: &'static str,
    /// Expression that creates an object named `example` in a test.
    pub(crate) fixture: Option<&'static str>,
}

const NONE: Option<&str> = None;

/// Kinds that are not stored or cannot be watched.
const PASSING: &str = "Binding ComponentStatus Eviction LocalSubjectAccessReview Scale SelfSubjectAccessReview \
                       SelfSubjectReview SelfSubjectRulesReview SubjectAccessReview TokenRequest TokenReview";

/// All kinds; for each kind, the most stable version comes first.
#[rustfmt::skip]
const BUILTINS: &[Builtin] = &[
    of("", "v1", "ConfigMap", "configmaps", true, "api::core::v1", Some("fixtures::config_map(\"example\", \"key\", \"value\")")),
    of("", "v1", "Endpoints", "endpoints", true, "api::core::v1", NONE),
    of("", "v1", "Event", "events", true, "api::core::v1", NONE),
    of("", "v1", "LimitRange", "limitranges", true, "api::core::v1", NONE),
    of("", "v1", "Namespace", "namespaces", false, "api::core::v1", Some("fixtures::namespace(\"example\")")),
    of("", "v1", "Node", "nodes", false, "api::core::v1", NONE),
    of("", "v1", "PersistentVolume", "persistentvolumes", false, "api::core::v1", NONE),
    of("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, "api::core::v1", NONE),
    of("", "v1", "Pod", "pods", true, "api::core::v1", Some("fixtures::pod(\"example\")")),
    of("", "v1", "PodTemplate", "podtemplates", true, "api::core::v1", NONE),
    of("", "v1", "ReplicationController", "replicationcontrollers", true, "api::core::v1", NONE),
    of("", "v1", "ResourceQuota", "resourcequotas", true, "api::core::v1", NONE),
    of("", "v1", "Secret", "secrets", true, "api::core::v1", Some("fixtures::secret(\"example\", \"key\", \"value\")")),
    of("", "v1", "Service", "services", true, "api::core::v1", Some("fixtures::service(\"example\")")),
    of("", "v1", "ServiceAccount", "serviceaccounts", true, "api::core::v1", NONE),
    of("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", false, "api::admissionregistration::v1", NONE),
    of("admissionregistration.k8s.io", "v1beta1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", false, "api::admissionregistration::v1beta1", NONE),
    of("admissionregistration.k8s.io", "v1alpha1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", false, "api::admissionregistration::v1alpha1", NONE),
    of("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", false, "api::admissionregistration::v1", NONE),
    of("admissionregistration.k8s.io", "v1beta1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", false, "api::admissionregistration::v1beta1", NONE),
    of("admissionregistration.k8s.io", "v1alpha1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", false, "api::admissionregistration::v1alpha1", NONE),
    of("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false, "api::admissionregistration::v1", NONE),
    of("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false, "api::admissionregistration::v1", NONE),
    of("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false, "api::admissionregistration::v1", NONE),
    of("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false, "api::admissionregistration::v1", NONE),
    of("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false, "apiextensions_apiserver::pkg::apis::apiextensions::v1", NONE),
    of("apiregistration.k8s.io", "v1", "APIService", "apiservices", false, "kube_aggregator::pkg::apis::apiregistration::v1", NONE),
    of("apps", "v1", "ControllerRevision", "controllerrevisions", true, "api::apps::v1", NONE),
    of("apps", "v1", "DaemonSet", "daemonsets", true, "api::apps::v1", NONE),
    of("apps", "v1", "Deployment", "deployments", true, "api::apps::v1", Some("fixtures::deployment(\"example\", 1)")),
    of("apps", "v1", "ReplicaSet", "replicasets", true, "api::apps::v1", NONE),
    of("apps", "v1", "StatefulSet", "statefulsets", true, "api::apps::v1", NONE),
    of("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true, "api::autoscaling::v2", NONE),
    of("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true, "api::autoscaling::v1", NONE),
    of("batch", "v1", "CronJob", "cronjobs", true, "api::batch::v1", NONE),
    of("batch", "v1", "Job", "jobs", true, "api::batch::v1", Some("fixtures::job(\"example\")")),
    of("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", false, "api::certificates::v1", NONE),
    of("certificates.k8s.io", "v1beta1", "ClusterTrustBundle", "clustertrustbundles", false, "api::certificates::v1beta1", NONE),
    of("certificates.k8s.io", "v1alpha1", "ClusterTrustBundle", "clustertrustbundles", false, "api::certificates::v1alpha1", NONE),
    of("certificates.k8s.io", "v1beta1", "PodCertificateRequest", "podcertificaterequests", true, "api::certificates::v1beta1", NONE),
    of("coordination.k8s.io", "v1", "Lease", "leases", true, "api::coordination::v1", NONE),
    of("coordination.k8s.io", "v1beta1", "LeaseCandidate", "leasecandidates", true, "api::coordination::v1beta1", NONE),
    of("coordination.k8s.io", "v1alpha2", "LeaseCandidate", "leasecandidates", true, "api::coordination::v1alpha2", NONE),
    of("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true, "api::discovery::v1", NONE),
    of("events.k8s.io", "v1", "Event", "events", true, "api::events::v1", NONE),
    of("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas", false, "api::flowcontrol::v1", NONE),
    of("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", false, "api::flowcontrol::v1", NONE),
    of("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion", "storageversions", false, "api::apiserverinternal::v1alpha1", NONE),
    of("networking.k8s.io", "v1", "IPAddress", "ipaddresses", false, "api::networking::v1", NONE),
    of("networking.k8s.io", "v1beta1", "IPAddress", "ipaddresses", false, "api::networking::v1beta1", NONE),
    of("networking.k8s.io", "v1", "Ingress", "ingresses", true, "api::networking::v1", NONE),
    of("networking.k8s.io", "v1", "IngressClass", "ingressclasses", false, "api::networking::v1", NONE),
    of("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true, "api::networking::v1", NONE),
    of("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", false, "api::networking::v1", NONE),
    of("networking.k8s.io", "v1beta1", "ServiceCIDR", "servicecidrs", false, "api::networking::v1beta1", NONE),
    of("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false, "api::node::v1", NONE),
    of("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true, "api::policy::v1", NONE),
    of("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, "api::rbac::v1", NONE),
    of("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false, "api::rbac::v1", NONE),
    of("rbac.authorization.k8s.io", "v1", "Role", "roles", true, "api::rbac::v1", NONE),
    of("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true, "api::rbac::v1", NONE),
    of("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false, "api::resource::v1", NONE),
    of("resource.k8s.io", "v1beta2", "DeviceClass", "deviceclasses", false, "api::resource::v1beta2", NONE),
    of("resource.k8s.io", "v1beta1", "DeviceClass", "deviceclasses", false, "api::resource::v1beta1", NONE),
    of("resource.k8s.io", "v1beta2", "DeviceTaintRule", "devicetaintrules", false, "api::resource::v1beta2", NONE),
    of("resource.k8s.io", "v1alpha3", "DeviceTaintRule", "devicetaintrules", false, "api::resource::v1alpha3", NONE),
    of("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true, "api::resource::v1", NONE),
    of("resource.k8s.io", "v1beta2", "ResourceClaim", "resourceclaims", true, "api::resource::v1beta2", NONE),
    of("resource.k8s.io", "v1beta1", "ResourceClaim", "resourceclaims", true, "api::resource::v1beta1", NONE),
    of("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", true, "api::resource::v1", NONE),
    of("resource.k8s.io", "v1beta2", "ResourceClaimTemplate", "resourceclaimtemplates", true, "api::resource::v1beta2", NONE),
    of("resource.k8s.io", "v1beta1", "ResourceClaimTemplate", "resourceclaimtemplates", true, "api::resource::v1beta1", NONE),
    of("resource.k8s.io", "v1alpha3", "ResourcePoolStatusRequest", "resourcepoolstatusrequests", false, "api::resource::v1alpha3", NONE),
    of("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", false, "api::resource::v1", NONE),
    of("resource.k8s.io", "v1beta2", "ResourceSlice", "resourceslices", false, "api::resource::v1beta2", NONE),
    of("resource.k8s.io", "v1beta1", "ResourceSlice", "resourceslices", false, "api::resource::v1beta1", NONE),
    of("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups", true, "api::scheduling::v1alpha2", NONE),
    of("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false, "api::scheduling::v1", NONE),
    of("scheduling.k8s.io", "v1alpha2", "Workload", "workloads", true, "api::scheduling::v1alpha2", NONE),
    of("storage.k8s.io", "v1", "CSIDriver", "csidrivers", false, "api::storage::v1", NONE),
    of("storage.k8s.io", "v1", "CSINode", "csinodes", false, "api::storage::v1", NONE),
    of("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", true, "api::storage::v1", NONE),
    of("storage.k8s.io", "v1", "StorageClass", "storageclasses", false, "api::storage::v1", NONE),
    of("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false, "api::storage::v1", NONE),
    of("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", false, "api::storage::v1", NONE),
    of("storage.k8s.io", "v1beta1", "VolumeAttributesClass", "volumeattributesclasses", false, "api::storage::v1beta1", NONE),
    of("storagemigration.k8s.io", "v1beta1", "StorageVersionMigration", "storageversionmigrations", false, "api::storagemigration::v1beta1", NONE),
];

const fn of(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    module: &'static str,
    fixture: Option<&'static str>,
) -> Builtin {
    Builtin { group, version, kind, plural, namespaced, module, fixture }
}

impl Builtin {
    pub(crate) fn find(group: &str, version: &str, kind: &str) -> Option<&'static Self> {
        BUILTINS.iter().find(|one| one.group == group && one.version == version && one.kind == kind)
    }

    /// Returns the first kind that matches the group and version, if these are given.
    pub(crate) fn of_kind(group: Option<&str>, version: Option<&str>, kind: &str) -> Option<&'static Self> {
        BUILTINS.iter().find(|one| {
            one.kind == kind
                && group.is_none_or(|group| one.is_of(group))
                && version.is_none_or(|version| one.version == version)
        })
    }

    /// Returns the kind of a resource in its most stable version.
    pub(crate) fn of_plural(group: &str, plural: &str) -> Option<&'static Self> {
        BUILTINS.iter().find(|one| one.group == group && one.plural == plural)
    }

    /// Path of the k8s-openapi type.
    pub(crate) fn path(&self) -> String {
        format!("k8s_openapi::{}::{}", self.module, self.kind)
    }

    /// Returns whether objects of this kind are events; recording an event about an event would never end.
    pub(crate) fn is_event(&self) -> bool {
        self.kind == "Event"
    }

    /// Explains why a kind that is neither defined by the project nor built in cannot be used.
    pub(crate) fn unknown(group: Option<&str>, version: Option<&str>, kind: &str, otherwise: &str) -> ScaffoldError {
        if PASSING.split(' ').any(|word| word == kind) && group.is_none_or(|group| group == "core" || Self::has(group))
        {
            let why = format!("{kind} objects are not stored, so they cannot be watched");
            return ScaffoldError::Contradiction { why, hint: "choose another kind".to_owned() };
        }
        let like: Vec<&Self> = BUILTINS.iter().filter(|one| one.kind.eq_ignore_ascii_case(kind)).collect();
        let said = match (group, version) {
            (Some(group), Some(version)) => format!("{kind} of {group}/{version}"),
            (Some(group), None) => format!("{kind} of {group}"),
            (None, Some(version)) => format!("{kind} of version {version}"),
            (None, None) => kind.to_owned(),
        };
        let is_meant = |one: &&&Self| group.is_none_or(|group| one.is_of(group) || !group.contains('.'));
        let places: Vec<String> = like.iter().filter(is_meant).map(|one| one.place()).collect();
        let hint = match places.is_empty() {
            true => otherwise.to_owned(),
            false => format!("Kubernetes has {}", places.join(", ")),
        };
        let why = format!("{said} is neither a kind of this project nor a built-in kind");
        ScaffoldError::Contradiction { why, hint }
    }

    fn place(&self) -> String {
        let group = if self.group.is_empty() { "core" } else { self.group };
        format!("{} of {group}/{}", self.kind, self.version)
    }

    /// Returns whether a group given on the command line is the group of this kind.
    fn is_of(&self, group: &str) -> bool {
        let group = if group == "core" { "" } else { group };
        self.group == group || self.group.split('.').next() == Some(group)
    }

    fn has(group: &str) -> bool {
        BUILTINS.iter().any(|one| one.is_of(group))
    }

    /// Returns whether the group is built in.
    pub(crate) fn has_group(group: &str) -> bool {
        BUILTINS.iter().any(|one| one.group == group)
    }
}

#[cfg(test)]
mod tests;
