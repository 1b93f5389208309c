use std::collections::BTreeSet;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use windlass_builtins::verb::Verb;

use super::*;

/// Whether objects of a scope are namespaced.
trait Scope {
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

fn described<K: Resource<Scope: Scope>>(module: &str, kind: &str) -> String {
    let module: String = module.split_whitespace().collect();
    let (plural, namespaced) = (K::URL_PATH_SEGMENT, K::Scope::NAMESPACED);
    format!("{} {} {} {plural} {namespaced} k8s_openapi::{module}::{kind}", K::GROUP, K::VERSION, K::KIND)
}

macro_rules! described {
    ($($($module:ident)::+: $($kind:ident),+;)+) => {{
        let mut all = BTreeSet::new();
        $({
            use k8s_openapi::$($module)::+ as module;
            let name = stringify!($($module)::+);
            all.extend([$(described::<module::$kind>(name, stringify!($kind))),+]);
        })+
        all
    }};
}

/// Every type exists in k8s-openapi and has the listed group, version, kind and scope.
#[rustfmt::skip]
#[test]
fn kinds_are_those_of_k8s_openapi() {
    let types = described! {
        api::admissionregistration::v1: MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration;
        api::admissionregistration::v1alpha1: MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding;
        api::admissionregistration::v1beta1: MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding;
        api::apiserverinternal::v1alpha1: StorageVersion;
        api::apps::v1: ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet;
        api::autoscaling::v1: HorizontalPodAutoscaler;
        api::autoscaling::v2: HorizontalPodAutoscaler;
        api::batch::v1: CronJob, Job;
        api::certificates::v1: CertificateSigningRequest;
        api::certificates::v1alpha1: ClusterTrustBundle;
        api::certificates::v1beta1: ClusterTrustBundle, PodCertificateRequest;
        api::coordination::v1: Lease;
        api::coordination::v1alpha2: LeaseCandidate;
        api::coordination::v1beta1: LeaseCandidate;
        api::core::v1: ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount;
        api::discovery::v1: EndpointSlice;
        api::events::v1: Event;
        api::flowcontrol::v1: FlowSchema, PriorityLevelConfiguration;
        api::networking::v1: IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR;
        api::networking::v1beta1: IPAddress, ServiceCIDR;
        api::node::v1: RuntimeClass;
        api::policy::v1: PodDisruptionBudget;
        api::rbac::v1: ClusterRole, ClusterRoleBinding, Role, RoleBinding;
        api::resource::v1: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice;
        api::resource::v1alpha3: DeviceTaintRule, ResourcePoolStatusRequest;
        api::resource::v1beta1: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice;
        api::resource::v1beta2: DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice;
        api::scheduling::v1: PriorityClass;
        api::scheduling::v1alpha2: PodGroup, Workload;
        api::storage::v1: CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass;
        api::storage::v1beta1: VolumeAttributesClass;
        api::storagemigration::v1beta1: StorageVersionMigration;
        apiextensions_apiserver::pkg::apis::apiextensions::v1: CustomResourceDefinition;
        kube_aggregator::pkg::apis::apiregistration::v1: APIService;
    };
    let known = |one: &Builtin| {
        format!("{} {} {} {} {} {}", one.group, one.version, one.kind, one.plural, one.namespaced, one.path())
    };
    assert_eq!(BUILTINS.iter().map(known).collect::<BTreeSet<_>>(), types);
    assert_eq!(BUILTINS.len(), types.len(), "a kind is listed twice");
}

#[test]
fn all_watchable_kinds_of_the_server_are_known() {
    let table = windlass_builtins::table();
    assert!(table.resources.len() > 50);
    for resource in table.resources.iter() {
        let found = Builtin::find(&resource.group, &resource.version, &resource.kind);
        let place = format!("{} of {}", resource.kind, resource.api_version());
        match resource.has_verb(Verb::Watch) {
            true => {
                let found = found.unwrap_or_else(|| panic!("{place} is not known"));
                assert_eq!((found.plural, found.namespaced), (&*resource.plural, resource.namespaced), "{place}");
                // Naming only the kind selects a stable version.
                let first = Builtin::of_kind(Some(found.group), None, found.kind).unwrap();
                assert!(!first.version.contains("alpha") && !first.version.contains("beta"), "{place}");
            }
            false => assert!(PASSING.split(' ').any(|word| word == &*resource.kind), "{place}"),
        }
    }
}

#[test]
fn errors_about_unknown_kinds_are_accurate() {
    for (group, version, kind, why, hint) in [
        (None, None, "Book", "Book is neither a kind of this project nor a built-in kind", "otherwise"),
        (None, None, "pod", "pod is neither", "Kubernetes has Pod of core/v1"),
        (Some("apps"), Some("v1beta1"), "Deployment", "Deployment of apps/v1beta1 is neither", "Deployment of apps/v1"),
        (Some("batch"), None, "Deployment", "Deployment of batch is neither", "Deployment of apps/v1"),
        (Some("example.com"), None, "Deployment", "Deployment of example.com is neither", "otherwise"),
        (None, None, "TokenReview", "TokenReview objects are not stored", "choose another kind"),
    ] {
        let error = Builtin::unknown(group, version, kind, "otherwise");
        assert!(error.to_string().starts_with(why), "{error}");
        assert!(error.hint().contains(hint), "{}", error.hint());
    }
}
