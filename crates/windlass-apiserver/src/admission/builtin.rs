//! The plugins that every cluster has, in the order in which they run.

use std::sync::Arc;

use super::{
    Admission, AdmissionConfiguration,
    always_pull_images::AlwaysPullImages,
    anti_affinity_topology::AntiAffinityTopology,
    certificate_authority::{CertificateAuthority, PodCertificateSigning},
    certificate_subject::CertificateSubject,
    claim_resize::ClaimResize,
    claim_status::ClaimStatus,
    default_ingress_class::DefaultIngressClass,
    default_storage_class::DefaultStorageClass,
    default_tolerations::DefaultTolerations,
    device_admin_access::DeviceAdminAccess,
    event_rate_limit::EventRateLimit,
    extended_resource_toleration::ExtendedResourceToleration,
    external_ips::ExternalIps,
    limit_ranger::LimitRanger,
    namespace_exists::{NamespaceAutoProvision, NamespaceExists},
    namespace_lifecycle::NamespaceLifecycle,
    node_features::NodeFeatures,
    node_restriction::NodeRestriction,
    node_taint::NodeTaint,
    owner_permission::OwnerPermission,
    pod_node_selector::PodNodeSelector,
    pod_resize::PodResize,
    pod_security::PodSecurity,
    pod_toleration_restriction::PodTolerationRestriction,
    pod_topology::PodTopology,
    priority::Priority,
    role_escalation::RoleEscalation,
    runtime_class::RuntimeClass,
    service_accounts::ServiceAccounts,
    storage_protection::StorageProtection,
};
use crate::storage::Storage;

/// The plugins that can be disabled, by their names in kube-apiserver.
pub const DISABLEABLE_PLUGINS: [&str; 25] = [
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "PersistentVolumeClaimResize",
    "PodResizeValidator",
    "PodSecurity",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// The plugins that run only if they are enabled, by their names in kube-apiserver.
pub const OPTIONAL_PLUGINS: [&str; 11] = [
    "AlwaysAdmit",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// Returns the plugins except for the disabled ones, with the optional ones that are enabled. Policies, webhooks and
/// quotas are separate stages of the write path.
pub(crate) fn builtin(
    storage: &Arc<Storage>,
    enabled: &[String],
    disabled: &[String],
    configuration: AdmissionConfiguration,
) -> Vec<Box<dyn Admission>> {
    let AdmissionConfiguration { pod_security, tolerations, node_selectors, pod_tolerations, event_limits, .. } =
        configuration;
    let pod_security = Arc::new(pod_security);
    let cache = |path: &str| storage.cache(path);
    let namespaces = cache("/core/namespaces/");
    let nodes = cache("/core/nodes/");
    let pods = cache("/core/pods/");
    let storage_classes = cache("/storage.k8s.io/storageclasses/");
    let priority_classes = cache("/scheduling.k8s.io/priorityclasses/");
    let runtime_classes = cache("/node.k8s.io/runtimeclasses/");
    let ingress_classes = cache("/networking.k8s.io/ingressclasses/");
    let storage = || storage.clone();
    // The order is that of kube-apiserver. Plugins without a name are part of the server there.
    let plugins: [(&str, Box<dyn Admission>); 34] = [
        (
            "NamespaceAutoProvision",
            Box::new(NamespaceAutoProvision { storage: storage(), namespaces: namespaces.clone() }),
        ),
        ("NamespaceLifecycle", Box::new(NamespaceLifecycle { storage: storage(), namespaces: namespaces.clone() })),
        ("NamespaceExists", Box::new(NamespaceExists { storage: storage(), namespaces: namespaces.clone() })),
        ("LimitPodHardAntiAffinityTopology", Box::new(AntiAffinityTopology)),
        ("LimitRanger", Box::new(LimitRanger { ranges: cache("/core/limitranges/") })),
        ("ServiceAccount", Box::new(ServiceAccounts { accounts: cache("/core/serviceaccounts/") })),
        ("NodeRestriction", Box::new(NodeRestriction)),
        ("TaintNodesByCondition", Box::new(NodeTaint)),
        ("AlwaysPullImages", Box::new(AlwaysPullImages)),
        ("PodSecurity", {
            let (configuration, namespaces) = (pod_security.clone(), namespaces.clone());
            Box::new(PodSecurity { storage: storage(), namespaces, pods, configuration })
        }),
        ("PodNodeSelector", {
            let namespaces = namespaces.clone();
            Box::new(PodNodeSelector { storage: storage(), namespaces, selectors: node_selectors })
        }),
        ("Priority", Box::new(Priority { storage: storage(), classes: priority_classes })),
        ("DefaultTolerationSeconds", Box::new(DefaultTolerations(tolerations))),
        ("PodTolerationRestriction", {
            let namespaces = namespaces.clone();
            Box::new(PodTolerationRestriction { storage: storage(), namespaces, cluster: pod_tolerations })
        }),
        ("EventRateLimit", Box::new(EventRateLimit::new(event_limits))),
        ("ExtendedResourceToleration", Box::new(ExtendedResourceToleration)),
        ("DefaultStorageClass", Box::new(DefaultStorageClass { storage: storage(), classes: storage_classes.clone() })),
        ("StorageObjectInUseProtection", Box::new(StorageProtection)),
        ("OwnerReferencesPermissionEnforcement", Box::new(OwnerPermission)),
        ("PersistentVolumeClaimResize", Box::new(ClaimResize { storage: storage(), classes: storage_classes })),
        ("RuntimeClass", Box::new(RuntimeClass { storage: storage(), classes: runtime_classes })),
        ("CertificateApproval", Box::new(CertificateAuthority::Approval)),
        ("CertificateSigning", Box::new(CertificateAuthority::Signing)),
        ("ClusterTrustBundleAttest", Box::new(CertificateAuthority::Attest)),
        ("CertificateSubjectRestriction", Box::new(CertificateSubject)),
        ("DefaultIngressClass", Box::new(DefaultIngressClass { storage: storage(), classes: ingress_classes })),
        ("DenyServiceExternalIPs", Box::new(ExternalIps)),
        ("PodTopologyLabels", Box::new(PodTopology { nodes: nodes.clone() })),
        ("NodeDeclaredFeatureValidator", Box::new(NodeFeatures { nodes: nodes.clone() })),
        ("PodResizeValidator", Box::new(PodResize { nodes })),
        ("", Box::new(DeviceAdminAccess { namespaces })),
        ("", Box::new(ClaimStatus)),
        ("", Box::new(PodCertificateSigning)),
        ("", Box::new(RoleEscalation)),
    ];
    let is_named = |names: &[String], name: &str| names.iter().any(|one| one == name);
    let is_enabled = |name: &str| match OPTIONAL_PLUGINS.contains(&name) {
        true => is_named(enabled, name),
        false => !is_named(disabled, name),
    };
    plugins.into_iter().filter(|(name, _)| is_enabled(name)).map(|(_, plugin)| plugin).collect()
}
