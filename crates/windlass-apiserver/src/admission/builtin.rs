//! The plugins that every cluster has, in the order in which they run.

use std::sync::Arc;

use super::{
    Admission, CertificateAuthority, CertificateSubject, ClaimResize, DefaultIngressClass, DefaultStorageClass,
    LimitRanger, NamespaceLifecycle, NodeRestriction, PodDefaults, RoleEscalation, ServiceAccounts, StorageProtection,
};
use crate::storage::Storage;

/// The plugins that can be disabled, by their names in kube-apiserver.
pub const DISABLEABLE_PLUGINS: [&str; 9] = [
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "LimitRanger",
    "NamespaceLifecycle",
    "NodeRestriction",
    "PersistentVolumeClaimResize",
    "ServiceAccount",
    "StorageObjectInUseProtection",
];

/// Returns the plugins except for the disabled ones.
pub(crate) fn builtin(storage: &Arc<Storage>, disabled: &[String]) -> Vec<Box<dyn Admission>> {
    let cache = |path: &str| storage.cache(path);
    let storage_classes = cache("/storage.k8s.io/storageclasses/");
    let priority_classes = cache("/scheduling.k8s.io/priorityclasses/");
    let ingress_classes = cache("/networking.k8s.io/ingressclasses/");
    // Plugins without a name cannot be disabled: in kube-apiserver they are part of the server or of several plugins.
    let plugins: [(&str, Box<dyn Admission>); 12] = [
        (
            "NamespaceLifecycle",
            Box::new(NamespaceLifecycle { storage: storage.clone(), namespaces: cache("/core/namespaces/") }),
        ),
        ("LimitRanger", Box::new(LimitRanger { ranges: cache("/core/limitranges/") })),
        ("ServiceAccount", Box::new(ServiceAccounts { accounts: cache("/core/serviceaccounts/") })),
        ("NodeRestriction", Box::new(NodeRestriction)),
        ("", Box::new(PodDefaults { storage: storage.clone(), priority_classes })),
        (
            "DefaultStorageClass",
            Box::new(DefaultStorageClass { storage: storage.clone(), classes: storage_classes.clone() }),
        ),
        ("StorageObjectInUseProtection", Box::new(StorageProtection)),
        ("", Box::new(CertificateAuthority)),
        ("CertificateSubjectRestriction", Box::new(CertificateSubject)),
        ("", Box::new(RoleEscalation)),
        ("PersistentVolumeClaimResize", Box::new(ClaimResize { storage: storage.clone(), classes: storage_classes })),
        ("DefaultIngressClass", Box::new(DefaultIngressClass { storage: storage.clone(), classes: ingress_classes })),
    ];
    let is_enabled = |name: &str| !disabled.iter().any(|disabled| disabled == name);
    plugins.into_iter().filter(|(name, _)| is_enabled(name)).map(|(_, plugin)| plugin).collect()
}
