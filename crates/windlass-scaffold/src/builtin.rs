//! Kinds that Kubernetes has and controllers are written for.

/// A kind of Kubernetes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Builtin {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
    /// The module of k8s-openapi.
    pub(crate) module: &'static str,
    /// An expression that makes one in a test, named `example`.
    pub(crate) fixture: Option<&'static str>,
}

const NONE: Option<&str> = None;

#[rustfmt::skip]
const BUILTINS: &[Builtin] = &[
    of("", "v1", "ConfigMap", "configmaps", true, "core::v1", Some("fixtures::config_map(\"example\", \"key\", \"value\")")),
    of("", "v1", "Endpoints", "endpoints", true, "core::v1", NONE),
    of("", "v1", "Namespace", "namespaces", false, "core::v1", Some("fixtures::namespace(\"example\")")),
    of("", "v1", "Node", "nodes", false, "core::v1", NONE),
    of("", "v1", "PersistentVolume", "persistentvolumes", false, "core::v1", NONE),
    of("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, "core::v1", NONE),
    of("", "v1", "Pod", "pods", true, "core::v1", Some("fixtures::pod(\"example\")")),
    of("", "v1", "Secret", "secrets", true, "core::v1", Some("fixtures::secret(\"example\", \"key\", \"value\")")),
    of("", "v1", "Service", "services", true, "core::v1", Some("fixtures::service(\"example\")")),
    of("", "v1", "ServiceAccount", "serviceaccounts", true, "core::v1", NONE),
    of("apps", "v1", "DaemonSet", "daemonsets", true, "apps::v1", NONE),
    of("apps", "v1", "Deployment", "deployments", true, "apps::v1", Some("fixtures::deployment(\"example\", 1)")),
    of("apps", "v1", "ReplicaSet", "replicasets", true, "apps::v1", NONE),
    of("apps", "v1", "StatefulSet", "statefulsets", true, "apps::v1", NONE),
    of("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true, "autoscaling::v2", NONE),
    of("batch", "v1", "CronJob", "cronjobs", true, "batch::v1", NONE),
    of("batch", "v1", "Job", "jobs", true, "batch::v1", Some("fixtures::job(\"example\")")),
    of("coordination.k8s.io", "v1", "Lease", "leases", true, "coordination::v1", NONE),
    of("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true, "discovery::v1", NONE),
    of("networking.k8s.io", "v1", "Ingress", "ingresses", true, "networking::v1", NONE),
    of("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true, "networking::v1", NONE),
    of("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true, "policy::v1", NONE),
    of("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, "rbac::v1", NONE),
    of("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false, "rbac::v1", NONE),
    of("rbac.authorization.k8s.io", "v1", "Role", "roles", true, "rbac::v1", NONE),
    of("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true, "rbac::v1", NONE),
    of("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false, "scheduling::v1", NONE),
    of("storage.k8s.io", "v1", "StorageClass", "storageclasses", false, "storage::v1", NONE),
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

    /// Those of a kind, whatever is known of the rest.
    pub(crate) fn of_kind(group: Option<&str>, version: Option<&str>, kind: &str) -> Option<&'static Self> {
        let group = group.map(|group| if group == "core" { "" } else { group });
        BUILTINS.iter().find(|one| {
            one.kind == kind
                && group.is_none_or(|group| one.group == group || one.group.split('.').next() == Some(group))
                && version.is_none_or(|version| one.version == version)
        })
    }

    /// Whether Kubernetes has the group.
    pub(crate) fn has_group(group: &str) -> bool {
        BUILTINS.iter().any(|one| one.group == group)
    }
}
