//! The order of groups and versions in discovery, as in kube-apiserver.

/// The priorities of a group version: higher ones come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Priorities {
    pub(super) group: i64,
    pub(super) version: i64,
}

/// The priorities of custom resources.
const CUSTOM: Priorities = Priorities { group: 1000, version: 100 };
/// The priority of the group of APIServices, which have none themselves.
const FIRST: i64 = 20_001;

/// Returns the priorities of a built-in group version; `None` if it has no APIService.
pub(super) fn builtin(group: &str, version: &str) -> Option<Priorities> {
    let of_group = match group {
        "" => 18_000,
        "apps" => 17_800,
        "events.k8s.io" => 17_750,
        "authentication.k8s.io" => 17_700,
        "authorization.k8s.io" => 17_600,
        "autoscaling" => 17_500,
        "batch" => 17_400,
        "certificates.k8s.io" => 17_300,
        "networking.k8s.io" => 17_200,
        "policy" => 17_100,
        "rbac.authorization.k8s.io" => 17_000,
        "storage.k8s.io" => 16_800,
        "apiextensions.k8s.io" | "admissionregistration.k8s.io" => 16_700,
        "scheduling.k8s.io" => 16_600,
        "coordination.k8s.io" => 16_500,
        "node.k8s.io" => 16_300,
        "discovery.k8s.io" | "resource.k8s.io" => 16_200,
        "flowcontrol.apiserver.k8s.io" => 16_100,
        "internal.apiserver.k8s.io" => 16_000,
        "storagemigration.k8s.io" => 15_800,
        _ => return None,
    };
    let of_version = match (group, version) {
        ("", "v1") => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1") => 21,
        (_, "v1") => 15,
        // Versions that are off by default.
        ("flowcontrol.apiserver.k8s.io", "v1beta3") => 18,
        ("flowcontrol.apiserver.k8s.io", "v1beta2") | ("resource.k8s.io", "v1beta2") => 15,
        ("coordination.k8s.io", "v1beta1") => 13,
        ("admissionregistration.k8s.io" | "discovery.k8s.io" | "flowcontrol.apiserver.k8s.io", "v1beta1")
        | ("coordination.k8s.io", "v1alpha2") => 12,
        ("admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io" | "internal.apiserver.k8s.io", "v1alpha1") => {
            9
        }
        ("events.k8s.io", "v1beta1") => 5,
        ("scheduling.k8s.io", "v1alpha2") => 2,
        // CustomResourceDefinitions in v1beta1 are an extension of this server, without an APIService.
        ("apiextensions.k8s.io", _) => return None,
        (_, "v1beta1") => 9,
        (_, "v1alpha1" | "v1alpha3") => 1,
        _ => return None,
    };
    Some(Priorities { group: of_group, version: of_version })
}

/// Returns the priorities of a group version whose APIService, if it has one, was not changed.
pub(super) fn of(group: &str, version: &str) -> Priorities {
    match (group, version) {
        (super::GROUP, _) => Priorities { group: FIRST, version: 15 },
        ("apiextensions.k8s.io", "v1beta1") => Priorities { group: 16_700, version: 1 },
        _ => builtin(group, version).unwrap_or(CUSTOM),
    }
}
