//! The plugins that every cluster has, in the order in which they run.

use std::sync::Arc;

use super::{
    Admission, AdmissionConfiguration,
    certificate_authority::{CertificateAuthority, PodCertificateSigning},
    certificate_subject::CertificateSubject,
    claim_resize::ClaimResize,
    claim_status::ClaimStatus,
    default_ingress_class::DefaultIngressClass,
    default_storage_class::DefaultStorageClass,
    default_tolerations::DefaultTolerations,
    device_admin_access::DeviceAdminAccess,
    limit_ranger::LimitRanger,
    namespace_lifecycle::NamespaceLifecycle,
    node_features::NodeFeatures,
    node_restriction::NodeRestriction,
    node_taint::NodeTaint,
    pod_resize::PodResize,
    pod_security::PodSecurity,
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

/// Returns the plugins except for the disabled ones. Policies, webhooks and quotas are separate stages of the write
/// path.
pub(crate) fn builtin(
    storage: &Arc<Storage>,
    disabled: &[String],
    configuration: AdmissionConfiguration,
) -> Vec<Box<dyn Admission>> {
    let AdmissionConfiguration { pod_security, tolerations, .. } = configuration;
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
    let plugins: [(&str, Box<dyn Admission>); 24] = [
        ("NamespaceLifecycle", Box::new(NamespaceLifecycle { storage: storage(), namespaces: namespaces.clone() })),
        ("LimitRanger", Box::new(LimitRanger { ranges: cache("/core/limitranges/") })),
        ("ServiceAccount", Box::new(ServiceAccounts { accounts: cache("/core/serviceaccounts/") })),
        ("NodeRestriction", Box::new(NodeRestriction)),
        ("TaintNodesByCondition", Box::new(NodeTaint)),
        ("PodSecurity", {
            let (configuration, namespaces) = (pod_security.clone(), namespaces.clone());
            Box::new(PodSecurity { storage: storage(), namespaces, pods, configuration })
        }),
        ("Priority", Box::new(Priority { storage: storage(), classes: priority_classes })),
        ("DefaultTolerationSeconds", Box::new(DefaultTolerations(tolerations))),
        ("DefaultStorageClass", Box::new(DefaultStorageClass { storage: storage(), classes: storage_classes.clone() })),
        ("StorageObjectInUseProtection", Box::new(StorageProtection)),
        ("PersistentVolumeClaimResize", Box::new(ClaimResize { storage: storage(), classes: storage_classes })),
        ("RuntimeClass", Box::new(RuntimeClass { storage: storage(), classes: runtime_classes })),
        ("CertificateApproval", Box::new(CertificateAuthority::Approval)),
        ("CertificateSigning", Box::new(CertificateAuthority::Signing)),
        ("ClusterTrustBundleAttest", Box::new(CertificateAuthority::Attest)),
        ("CertificateSubjectRestriction", Box::new(CertificateSubject)),
        ("DefaultIngressClass", Box::new(DefaultIngressClass { storage: storage(), classes: ingress_classes })),
        ("PodTopologyLabels", Box::new(PodTopology { nodes: nodes.clone() })),
        ("NodeDeclaredFeatureValidator", Box::new(NodeFeatures { nodes: nodes.clone() })),
        ("PodResizeValidator", Box::new(PodResize { nodes })),
        ("", Box::new(DeviceAdminAccess { namespaces })),
        ("", Box::new(ClaimStatus)),
        ("", Box::new(PodCertificateSigning)),
        ("", Box::new(RoleEscalation)),
    ];
    let is_enabled = |name: &str| !disabled.iter().any(|disabled| disabled == name);
    plugins.into_iter().filter(|(name, _)| is_enabled(name)).map(|(_, plugin)| plugin).collect()
}
