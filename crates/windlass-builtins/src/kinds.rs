//! The built-in kinds: a [strategy](crate::strategy) and [facts](crate::facts) for every resource.
//!
//! A kind with behaviour of its own has a file in `kinds/`; the other kinds use [`Plain`]. The constant properties of
//! all kinds are rows of one table, in `kinds/facts.rs`.

pub mod admission_policy;
mod admission_rule;
pub mod api_service;
pub mod certificate_signing_request;
pub mod cluster_trust_bundle;
mod conditions;
pub mod config_map;
pub mod controller_revision;
pub mod cron_job;
pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod custom_resource_definition;
pub mod daemon_set;
pub mod deployment;
mod device_claim;
pub mod device_class;
pub mod device_taint_rule;
pub mod endpoint_slice;
pub mod endpoints;
pub mod event;
mod facts;
pub mod flow_schema;
pub mod horizontal_pod_autoscaler;
pub mod ingress;
pub mod ingress_class;
mod int_or_percent;
mod internal_types;
pub mod ip_address;
pub mod job;
mod label_selector;
pub mod lease;
pub mod lease_candidate;
pub mod limit_range;
pub mod namespace;
pub mod network_policy;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_certificate_request;
pub mod pod_disruption_budget;
pub mod pod_group;
pub mod pod_template;
mod printers;
pub mod priority_class;
pub mod priority_level_configuration;
pub mod replica_set;
pub mod replication_controller;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_quota;
pub mod resource_slice;
pub mod role;
pub mod role_binding;
pub mod runtime_class;
pub mod scale;
pub mod secret;
mod semantic_version;
pub mod service;
pub mod service_account;
pub mod service_cidr;
pub mod stateful_set;
pub mod storage_class;
pub mod storage_version_migration;
pub mod volume_attachment;
pub mod volume_attributes_class;
pub mod webhook_configuration;
pub mod workload;

pub use self::facts::facts;
use crate::strategy::{Plain, Strategy};

/// The strategy of a resource; [`Plain`] if the kind has no behaviour of its own or is unknown.
pub fn strategy(group: &str, resource: &str) -> &'static dyn Strategy {
    match (group, resource) {
        // One row per kind that has its own file, sorted by group and resource.
        ("", "configmaps") => &config_map::ConfigMap,
        ("", "endpoints") => &endpoints::Endpoints,
        ("", "events") => &event::CoreEvent,
        ("", "limitranges") => &limit_range::LimitRange,
        ("", "namespaces") => &namespace::Namespace,
        ("", "nodes") => &node::Node,
        ("", "persistentvolumeclaims") => &persistent_volume_claim::PersistentVolumeClaim,
        ("", "persistentvolumes") => &persistent_volume::PersistentVolume,
        ("", "pods") => &pod::Pod,
        ("", "podtemplates") => &pod_template::PodTemplate,
        ("", "replicationcontrollers") => &replication_controller::ReplicationController,
        ("", "resourcequotas") => &resource_quota::ResourceQuota,
        ("", "secrets") => &secret::Secret,
        ("", "serviceaccounts") => &service_account::ServiceAccount,
        ("", "services") => &service::Service,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => &admission_policy::MutatingAdmissionPolicy,
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => {
            &admission_policy::PolicyBinding::MUTATING
        }
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => {
            &webhook_configuration::WebhookConfiguration::MUTATING
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => &admission_policy::ValidatingAdmissionPolicy,
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            &admission_policy::PolicyBinding::VALIDATING
        }
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => {
            &webhook_configuration::WebhookConfiguration::VALIDATING
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => &custom_resource_definition::CustomResourceDefinition,
        ("apiregistration.k8s.io", "apiservices") => &api_service::ApiService,
        ("apps", "controllerrevisions") => &controller_revision::ControllerRevision,
        ("apps", "daemonsets") => &daemon_set::DaemonSet,
        ("apps", "deployments") => &deployment::Deployment,
        ("apps", "replicasets") => &replica_set::ReplicaSet,
        ("apps", "statefulsets") => &stateful_set::StatefulSet,
        ("autoscaling", "horizontalpodautoscalers") => &horizontal_pod_autoscaler::HorizontalPodAutoscaler,
        ("batch", "cronjobs") => &cron_job::CronJob,
        ("batch", "jobs") => &job::Job,
        ("certificates.k8s.io", "certificatesigningrequests") => {
            &certificate_signing_request::CertificateSigningRequest
        }
        ("certificates.k8s.io", "clustertrustbundles") => &cluster_trust_bundle::ClusterTrustBundle,
        ("certificates.k8s.io", "podcertificaterequests") => &pod_certificate_request::PodCertificateRequest,
        ("coordination.k8s.io", "leasecandidates") => &lease_candidate::LeaseCandidate,
        ("coordination.k8s.io", "leases") => &lease::Lease,
        ("discovery.k8s.io", "endpointslices") => &endpoint_slice::EndpointSlice,
        ("events.k8s.io", "events") => &event::EventsEvent,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => &flow_schema::FlowSchema,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            &priority_level_configuration::PriorityLevelConfiguration
        }
        ("networking.k8s.io", "ingressclasses") => &ingress_class::IngressClass,
        ("networking.k8s.io", "ingresses") => &ingress::Ingress,
        ("networking.k8s.io", "ipaddresses") => &ip_address::IpAddress,
        ("networking.k8s.io", "networkpolicies") => &network_policy::NetworkPolicy,
        ("networking.k8s.io", "servicecidrs") => &service_cidr::ServiceCidr,
        ("node.k8s.io", "runtimeclasses") => &runtime_class::RuntimeClass,
        ("policy", "poddisruptionbudgets") => &pod_disruption_budget::PodDisruptionBudget,
        ("rbac.authorization.k8s.io", "clusterrolebindings") => &role_binding::RoleBinding::CLUSTER,
        ("rbac.authorization.k8s.io", "clusterroles") => &role::ClusterRole,
        ("rbac.authorization.k8s.io", "rolebindings") => &role_binding::RoleBinding::NAMESPACED,
        ("rbac.authorization.k8s.io", "roles") => &role::Role,
        ("resource.k8s.io", "deviceclasses") => &device_class::DeviceClass,
        ("resource.k8s.io", "devicetaintrules") => &device_taint_rule::DeviceTaintRule,
        ("resource.k8s.io", "resourceclaims") => &resource_claim::ResourceClaim,
        ("resource.k8s.io", "resourceclaimtemplates") => &resource_claim_template::ResourceClaimTemplate,
        ("resource.k8s.io", "resourceslices") => &resource_slice::ResourceSlice,
        ("scheduling.k8s.io", "podgroups") => &pod_group::PodGroup,
        ("scheduling.k8s.io", "priorityclasses") => &priority_class::PriorityClass,
        ("scheduling.k8s.io", "workloads") => &workload::Workload,
        ("storage.k8s.io", "csidrivers") => &csi_driver::CsiDriver,
        ("storage.k8s.io", "csinodes") => &csi_node::CsiNode,
        ("storage.k8s.io", "csistoragecapacities") => &csi_storage_capacity::CsiStorageCapacity,
        ("storage.k8s.io", "storageclasses") => &storage_class::StorageClass,
        ("storage.k8s.io", "volumeattachments") => &volume_attachment::VolumeAttachment,
        ("storage.k8s.io", "volumeattributesclasses") => &volume_attributes_class::VolumeAttributesClass,
        ("storagemigration.k8s.io", "storageversionmigrations") => &storage_version_migration::StorageVersionMigration,
        _ => &Plain,
    }
}

#[cfg(test)]
pub(crate) mod tests;
