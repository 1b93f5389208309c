//! The types of `request` and `namespaceObject`.

use crate::checker::TypeProvider;
use crate::types::Type;

/// The types of `request` and `namespaceObject`.
pub(super) struct RequestTypes;

const OBJECTS: &[&str] = &[
    "kubernetes.AdmissionRequest",
    "kubernetes.GroupVersionKind",
    "kubernetes.GroupVersionResource",
    "kubernetes.Namespace",
    "kubernetes.NamespaceCondition",
    "kubernetes.NamespaceMetadata",
    "kubernetes.NamespaceSpec",
    "kubernetes.NamespaceStatus",
    "kubernetes.UserInfo",
];

impl TypeProvider for RequestTypes {
    fn find_type(&self, name: &str) -> Option<Type> {
        OBJECTS.contains(&name).then(|| Type::object(name))
    }

    fn find_field(&self, object: &str, field: &str) -> Option<Type> {
        let object_type = |name: &str| Type::object(&format!("kubernetes.{name}"));
        let texts = || Type::list(Type::String);
        let text_map = || Type::map(Type::String, Type::String);
        Some(match (object.strip_prefix("kubernetes.")?, field) {
            ("AdmissionRequest", "kind" | "requestKind") => object_type("GroupVersionKind"),
            ("AdmissionRequest", "resource" | "requestResource") => object_type("GroupVersionResource"),
            ("AdmissionRequest", "subResource" | "requestSubResource" | "name" | "namespace" | "operation") => {
                Type::String
            }
            ("AdmissionRequest", "userInfo") => object_type("UserInfo"),
            ("AdmissionRequest", "dryRun") => Type::Bool,
            ("AdmissionRequest", "options") => Type::Dyn,
            ("GroupVersionKind", "group" | "version" | "kind") => Type::String,
            ("GroupVersionResource", "group" | "version" | "resource") => Type::String,
            ("UserInfo", "username" | "uid") => Type::String,
            ("UserInfo", "groups") => texts(),
            ("UserInfo", "extra") => Type::map(Type::String, texts()),
            ("Namespace", "metadata") => object_type("NamespaceMetadata"),
            ("Namespace", "spec") => object_type("NamespaceSpec"),
            ("Namespace", "status") => object_type("NamespaceStatus"),
            ("NamespaceMetadata", "name" | "generateName" | "namespace" | "UID" | "resourceVersion") => Type::String,
            ("NamespaceMetadata", "labels" | "annotations") => text_map(),
            ("NamespaceMetadata", "creationTimestamp" | "deletionTimestamp") => Type::Timestamp,
            ("NamespaceMetadata", "deletionGracePeriodSeconds" | "generation") => Type::Int,
            ("NamespaceMetadata" | "NamespaceSpec", "finalizers") => texts(),
            ("NamespaceStatus", "conditions") => Type::list(object_type("NamespaceCondition")),
            ("NamespaceStatus", "phase") => Type::String,
            ("NamespaceCondition", "status" | "type" | "message" | "reason") => Type::String,
            ("NamespaceCondition", "lastTransitionTime") => Type::Timestamp,
            _ => return None,
        })
    }
}
