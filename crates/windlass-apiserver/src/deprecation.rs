//! Deprecated versions of built-in kinds, as of Kubernetes v1.36.

use windlass_builtins::resource::Resource;

use crate::old_definitions;

/// A deprecated version of a kind.
pub(crate) struct Deprecation {
    /// The warning that every response carries.
    pub(crate) warning: &'static str,
    /// The release in which the version is removed, for audit events; empty if that is not planned.
    pub(crate) removed_release: &'static str,
}

/// A version of a kind, worded as in kube-apiserver: its name, since when it is deprecated, the release that removes
/// it, and what to use instead.
macro_rules! deprecated {
    ($kind:literal since $since:literal) => {
        &Deprecation { warning: concat!($kind, " is deprecated in v", $since, "+"), removed_release: "" }
    };
    ($kind:literal since $since:literal, use $instead:literal) => {
        &Deprecation {
            warning: concat!($kind, " is deprecated in v", $since, "+; use ", $instead),
            removed_release: "",
        }
    };
    ($kind:literal since $since:literal until $until:literal) => {
        &Deprecation {
            warning: concat!($kind, " is deprecated in v", $since, "+, unavailable in v", $until, "+"),
            removed_release: $until,
        }
    };
    ($kind:literal since $since:literal until $until:literal, use $instead:literal) => {
        &Deprecation {
            warning: concat!($kind, " is deprecated in v", $since, "+, unavailable in v", $until, "+; use ", $instead),
            removed_release: $until,
        }
    };
}

static OLD_DEFINITION: &Deprecation = &Deprecation { warning: old_definitions::DEPRECATED, removed_release: "1.22" };

/// Returns what is deprecated about a built-in resource.
pub(crate) fn of(resource: &Resource) -> Option<&'static Deprecation> {
    Some(match (&*resource.version, &*resource.plural, &*resource.group) {
        ("v1", "endpoints", "") => deprecated!("v1 Endpoints" since "1.33", use "discovery.k8s.io/v1 EndpointSlice"),
        ("v1", "componentstatuses", "") => deprecated!("v1 ComponentStatus" since "1.19"),
        ("v1", ..) => return None,
        ("v1alpha1", "mutatingadmissionpolicies", "admissionregistration.k8s.io") => {
            deprecated!("admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy" since "1.35" until "1.38")
        }
        ("v1alpha1", "mutatingadmissionpolicybindings", "admissionregistration.k8s.io") => {
            deprecated!("admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicyBinding" since "1.35" until "1.38")
        }
        ("v1beta1", "leasecandidates", "coordination.k8s.io") => {
            deprecated!("coordination.k8s.io/v1beta1 LeaseCandidate" since "1.36" until "1.39")
        }
        ("v1beta1", "ipaddresses", "networking.k8s.io") => {
            deprecated!("networking.k8s.io/v1beta1 IPAddress" since "1.34" until "1.37")
        }
        ("v1beta1", "servicecidrs", "networking.k8s.io") => {
            deprecated!("networking.k8s.io/v1beta1 ServiceCIDR" since "1.34" until "1.37")
        }
        ("v1beta2", "deviceclasses", "resource.k8s.io") => {
            deprecated!("resource.k8s.io/v1beta2 DeviceClass" since "1.36" until "1.39")
        }
        ("v1beta2", "resourceclaims", "resource.k8s.io") => {
            deprecated!("resource.k8s.io/v1beta2 ResourceClaim" since "1.36" until "1.39")
        }
        ("v1beta2", "resourceclaimtemplates", "resource.k8s.io") => {
            deprecated!("resource.k8s.io/v1beta2 ResourceClaimTemplate" since "1.36" until "1.39")
        }
        ("v1beta2", "resourceslices", "resource.k8s.io") => {
            deprecated!("resource.k8s.io/v1beta2 ResourceSlice" since "1.36" until "1.39")
        }
        ("v1beta1", "volumeattributesclasses", "storage.k8s.io") => {
            deprecated!("storage.k8s.io/v1beta1 VolumeAttributesClass" since "1.34" until "1.37",
                use "storage.k8s.io/v1 VolumeAttributesClass")
        }
        (version, _, group) if old_definitions::is_version(group, version) => OLD_DEFINITION,
        _ => return None,
    })
}
