//! Order of objects, so that dependencies are applied first.

use serde_json::Value;
use windlass_schema::sorting;

use super::Reference;

/// Kinds from first to last. Other kinds come between workloads and webhook configurations.
const FIRST: &[&str] = &[
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "DaemonSet",
    "Deployment",
    "StatefulSet",
    "Job",
    "CronJob",
];

/// Webhook configurations block writes while no webhook responds: they are applied last and deleted first.
const LAST: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Sorts objects into the order of applying; objects of the same rank keep their order.
pub(super) fn applied(objects: &[Value]) -> Vec<&Value> {
    let mut ordered: Vec<&Value> = objects.iter().collect();
    sorting::sort_by_key(&mut ordered, |object| rank(&Reference::of(object)));
    ordered
}

/// Returns whether this is a CustomResourceDefinition.
pub(super) fn is_definition(reference: &Reference) -> bool {
    reference.kind == "CustomResourceDefinition" && reference.group() == "apiextensions.k8s.io"
}

fn rank(reference: &Reference) -> usize {
    let place = |kinds: &[&str]| kinds.iter().position(|kind| *kind == reference.kind);
    // Kinds of other groups may have the same name.
    let group = reference.group();
    let is_known = !group.contains('.') || group.ends_with(".k8s.io");
    match (place(FIRST), place(LAST)) {
        (Some(place), _) if is_known => place,
        (_, Some(place)) if is_known => FIRST.len() + 1 + place,
        _ => FIRST.len(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dependencies_come_first_and_webhook_configurations_last() {
        let object = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind});
        let objects = [
            object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
            object("apps/v1", "Deployment"),
            object("example.com/v1", "Namespace"),
            object("rbac.authorization.k8s.io/v1", "ClusterRole"),
            object("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            object("v1", "ServiceAccount"),
            object("v1", "Namespace"),
        ];
        let kinds: Vec<String> = applied(&objects)
            .into_iter()
            .map(|object| format!("{} {}", object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()))
            .collect();
        assert_eq!(
            kinds,
            [
                "v1 Namespace",
                "apiextensions.k8s.io/v1 CustomResourceDefinition",
                "v1 ServiceAccount",
                "rbac.authorization.k8s.io/v1 ClusterRole",
                "apps/v1 Deployment",
                "example.com/v1 Namespace",
                "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
            ]
        );
    }
}
