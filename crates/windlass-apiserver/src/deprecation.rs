//! Deprecated versions of built-in kinds, as of Kubernetes v1.36.

use windlass_builtins::resource::Resource;

use crate::old_definitions;

/// A deprecated version of a kind.
pub(crate) struct Deprecation {
    /// The release that deprecates it.
    since: &'static str,
    /// The release that removes it, if that is planned.
    pub(crate) removed_release: Option<&'static str>,
    /// The version and kind to use instead, if there is one.
    replacement: Option<&'static str>,
}

impl Deprecation {
    /// Returns the warning that every response carries, worded as in kube-apiserver.
    pub(crate) fn warning(&self, resource: &Resource) -> String {
        let mut warning = format!("{} {} is deprecated in v{}+", resource.api_version(), resource.kind, self.since);
        if let Some(release) = self.removed_release {
            warning.push_str(&format!(", unavailable in v{release}+"));
        }
        if let Some(replacement) = self.replacement {
            warning.push_str(&format!("; use {replacement}"));
        }
        warning
    }
}

/// Returns what is deprecated about a built-in resource.
pub(crate) fn of(resource: &Resource) -> Option<Deprecation> {
    let (since, removed_release, replacement) = match (&*resource.version, &*resource.plural, &*resource.group) {
        ("v1", "endpoints", "") => ("1.33", None, Some("discovery.k8s.io/v1 EndpointSlice")),
        ("v1", "componentstatuses", "") => ("1.19", None, None),
        ("v1", ..) => return None,
        (
            "v1alpha1",
            "mutatingadmissionpolicies" | "mutatingadmissionpolicybindings",
            "admissionregistration.k8s.io",
        ) => ("1.35", Some("1.38"), None),
        ("v1beta1", "leasecandidates", "coordination.k8s.io") => ("1.36", Some("1.39"), None),
        ("v1beta1", "ipaddresses" | "servicecidrs", "networking.k8s.io") => ("1.34", Some("1.37"), None),
        (
            "v1beta2",
            "deviceclasses" | "resourceclaims" | "resourceclaimtemplates" | "resourceslices",
            "resource.k8s.io",
        ) => ("1.36", Some("1.39"), None),
        ("v1beta1", "volumeattributesclasses", "storage.k8s.io") => {
            ("1.34", Some("1.37"), Some("storage.k8s.io/v1 VolumeAttributesClass"))
        }
        (version, _, group) if old_definitions::is_version(group, version) => {
            ("1.16", Some("1.22"), Some("apiextensions.k8s.io/v1 CustomResourceDefinition"))
        }
        _ => return None,
    };
    Some(Deprecation { since, removed_release, replacement })
}
