//! The facts of every built-in kind, sorted by group and resource. Fields that a row does not mention have the default.

use super::*;
use crate::facts::{Generation, KindFacts, NameRule, Undeletable};

const DEFAULT: KindFacts = KindFacts::DEFAULT;
const SPEC: Generation = Generation::Spec;

/// Objects whose name is part of a path only: RBAC objects, for example, may have colons in their names.
const PATH_SEGMENT: KindFacts = KindFacts { name_rule: NameRule::PathSegment, ..DEFAULT };

/// RBAC objects, which `kubectl auth reconcile` creates with a PUT.
const RBAC: KindFacts = KindFacts { creates_on_update: true, ..PATH_SEGMENT };

/// Kinds that are updated only with the resource version that the client has seen.
const CONDITIONAL: KindFacts = KindFacts { allows_unconditional_update: false, ..DEFAULT };

/// Admission policies, their bindings and webhook configurations.
const ADMISSION: KindFacts = KindFacts { generation: SPEC, repeats_metadata_rules: false, ..CONDITIONAL };

/// Events of both API groups.
const EVENT: KindFacts = KindFacts {
    creates_on_update: true,
    ignores_propagation_policy: true,
    repeats_metadata_rules: false,
    printer: Some(event::PRINTER),
    ..DEFAULT
};

static TABLE: &[(&str, &str, KindFacts)] = &[
    ("", "bindings", DEFAULT),
    ("", "componentstatuses", KindFacts { printer: Some(printers::component_status::PRINTER), ..DEFAULT }),
    ("", "configmaps", KindFacts { printer: Some(config_map::PRINTER), ..DEFAULT }),
    ("", "endpoints", KindFacts { creates_on_update: true, printer: Some(endpoints::PRINTER), ..DEFAULT }),
    // Old clients put anything into the names of events; only events.k8s.io enforces the usual rule.
    ("", "events", KindFacts { name_rule: NameRule::PathSegment, ..EVENT }),
    ("", "limitranges", KindFacts { creates_on_update: true, repeats_metadata_rules: false, ..DEFAULT }),
    (
        "",
        "namespaces",
        KindFacts {
            name_rule: NameRule::DnsLabel,
            finalizers_in_spec: true,
            printer: Some(namespace::PRINTER),
            ..DEFAULT
        },
    ),
    // A kubelet registers its node together with its status.
    ("", "nodes", KindFacts { accepts_status_on_create: true, printer: Some(node::PRINTER), ..DEFAULT }),
    ("", "persistentvolumeclaims", KindFacts { printer: Some(persistent_volume_claim::PRINTER), ..DEFAULT }),
    (
        "",
        "persistentvolumes",
        KindFacts { repeats_metadata_rules: false, printer: Some(persistent_volume::PRINTER), ..DEFAULT },
    ),
    ("", "pods", KindFacts { generation: SPEC, printer: Some(pod::PRINTER), ..DEFAULT }),
    ("", "podtemplates", KindFacts { generation: SPEC, printer: Some(pod_template::PRINTER), ..DEFAULT }),
    (
        "",
        "replicationcontrollers",
        KindFacts {
            generation: SPEC,
            orphans_by_default: true,
            printer: Some(replication_controller::PRINTER),
            ..DEFAULT
        },
    ),
    ("", "resourcequotas", KindFacts { printer: Some(resource_quota::PRINTER), ..DEFAULT }),
    ("", "secrets", KindFacts { printer: Some(secret::PRINTER), ..DEFAULT }),
    ("", "serviceaccounts", KindFacts { printer: Some(service_account::PRINTER), ..DEFAULT }),
    (
        "",
        "services",
        KindFacts {
            name_rule: NameRule::DnsLabel,
            creates_on_update: true,
            printer: Some(service::PRINTER),
            ..DEFAULT
        },
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
        KindFacts { printer: Some(printers::admission::MUTATING_POLICY), ..ADMISSION },
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        KindFacts { printer: Some(printers::admission::POLICY_BINDING), ..ADMISSION },
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        KindFacts { printer: Some(webhook_configuration::PRINTER), ..ADMISSION },
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        KindFacts {
            keeps_metadata_on_status: true,
            printer: Some(printers::admission::VALIDATING_POLICY),
            ..ADMISSION
        },
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        KindFacts { printer: Some(printers::admission::POLICY_BINDING), ..ADMISSION },
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        KindFacts { printer: Some(webhook_configuration::PRINTER), ..ADMISSION },
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions", KindFacts { generation: SPEC, ..CONDITIONAL }),
    (
        "apiregistration.k8s.io",
        "apiservices",
        KindFacts { name_rule: NameRule::PathSegment, printer: Some(printers::admission::API_SERVICE), ..CONDITIONAL },
    ),
    ("apps", "controllerrevisions", KindFacts { printer: Some(controller_revision::PRINTER), ..DEFAULT }),
    ("apps", "daemonsets", KindFacts { generation: SPEC, printer: Some(daemon_set::PRINTER), ..DEFAULT }),
    ("apps", "deployments", KindFacts { generation: SPEC, printer: Some(deployment::PRINTER), ..DEFAULT }),
    ("apps", "replicasets", KindFacts { generation: SPEC, printer: Some(replica_set::PRINTER), ..DEFAULT }),
    (
        "apps",
        "statefulsets",
        KindFacts { name_rule: NameRule::DnsLabel, generation: SPEC, printer: Some(stateful_set::PRINTER), ..DEFAULT },
    ),
    // Reviews are not stored.
    ("authentication.k8s.io", "selfsubjectreviews", PATH_SEGMENT),
    ("authentication.k8s.io", "tokenreviews", PATH_SEGMENT),
    ("authorization.k8s.io", "localsubjectaccessreviews", PATH_SEGMENT),
    ("authorization.k8s.io", "selfsubjectaccessreviews", PATH_SEGMENT),
    ("authorization.k8s.io", "selfsubjectrulesreviews", PATH_SEGMENT),
    ("authorization.k8s.io", "subjectaccessreviews", PATH_SEGMENT),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        KindFacts { printer: Some(horizontal_pod_autoscaler::PRINTER), ..DEFAULT },
    ),
    ("batch", "cronjobs", KindFacts { generation: SPEC, printer: Some(cron_job::PRINTER), ..DEFAULT }),
    (
        "batch",
        "jobs",
        KindFacts {
            generation: SPEC,
            orphans_by_default: true,
            deletion_warning: Some(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                 remove them or set propagationPolicy=Orphan to suppress this warning",
            ),
            printer: Some(job::PRINTER),
            ..DEFAULT
        },
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        KindFacts { printer: Some(certificate_signing_request::PRINTER), ..PATH_SEGMENT },
    ),
    // Names begin with that of the signer, with colons.
    (
        "certificates.k8s.io",
        "clustertrustbundles",
        KindFacts { name_rule: NameRule::OfKind, printer: Some(cluster_trust_bundle::PRINTER), ..CONDITIONAL },
    ),
    (
        "certificates.k8s.io",
        "podcertificaterequests",
        KindFacts { keeps_metadata_on_status: true, printer: Some(pod_certificate_request::PRINTER), ..CONDITIONAL },
    ),
    (
        "coordination.k8s.io",
        "leasecandidates",
        KindFacts {
            name_rule: NameRule::OfKind,
            creates_on_update: true,
            printer: Some(lease_candidate::PRINTER),
            ..CONDITIONAL
        },
    ),
    (
        "coordination.k8s.io",
        "leases",
        KindFacts { creates_on_update: true, printer: Some(lease::PRINTER), ..CONDITIONAL },
    ),
    (
        "discovery.k8s.io",
        "endpointslices",
        KindFacts {
            generation: Generation::Fields(&["/addressType", "/endpoints", "/ports", "/metadata/labels"]),
            repeats_metadata_rules: false,
            printer: Some(endpoint_slice::PRINTER),
            ..DEFAULT
        },
    ),
    ("events.k8s.io", "events", EVENT),
    (
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        KindFacts {
            repeats_metadata_rules: false,
            keeps_metadata_on_status: true,
            generation: SPEC,
            printer: Some(flow_schema::PRINTER),
            ..DEFAULT
        },
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        KindFacts {
            repeats_metadata_rules: false,
            keeps_metadata_on_status: true,
            generation: SPEC,
            printer: Some(priority_level_configuration::PRINTER),
            ..DEFAULT
        },
    ),
    (
        "networking.k8s.io",
        "ingressclasses",
        KindFacts { generation: SPEC, printer: Some(ingress_class::PRINTER), ..DEFAULT },
    ),
    ("networking.k8s.io", "ingresses", KindFacts { generation: SPEC, printer: Some(ingress::PRINTER), ..DEFAULT }),
    ("networking.k8s.io", "ipaddresses", KindFacts { printer: Some(ip_address::PRINTER), ..PATH_SEGMENT }),
    (
        "networking.k8s.io",
        "networkpolicies",
        KindFacts { generation: SPEC, printer: Some(network_policy::PRINTER), ..DEFAULT },
    ),
    (
        "networking.k8s.io",
        "servicecidrs",
        KindFacts { keeps_metadata_on_status: true, printer: Some(service_cidr::PRINTER), ..DEFAULT },
    ),
    (
        "node.k8s.io",
        "runtimeclasses",
        KindFacts { creates_on_update: true, printer: Some(runtime_class::PRINTER), ..CONDITIONAL },
    ),
    (
        "policy",
        "poddisruptionbudgets",
        KindFacts {
            name_rule: NameRule::PathSegment,
            generation: SPEC,
            repeats_metadata_rules: false,
            printer: Some(pod_disruption_budget::PRINTER),
            ..CONDITIONAL
        },
    ),
    (
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
        KindFacts { printer: Some(role_binding::CLUSTER_PRINTER), ..RBAC },
    ),
    ("rbac.authorization.k8s.io", "clusterroles", RBAC),
    ("rbac.authorization.k8s.io", "rolebindings", KindFacts { printer: Some(role_binding::PRINTER), ..RBAC }),
    ("rbac.authorization.k8s.io", "roles", RBAC),
    (
        "resource.k8s.io",
        "deviceclasses",
        KindFacts { generation: SPEC, printer: Some(printers::NAME_AND_AGE), ..DEFAULT },
    ),
    (
        "resource.k8s.io",
        "devicetaintrules",
        KindFacts {
            keeps_metadata_on_status: true,
            generation: SPEC,
            printer: Some(device_taint_rule::PRINTER),
            ..DEFAULT
        },
    ),
    (
        "resource.k8s.io",
        "resourceclaims",
        KindFacts {
            keeps_metadata_on_status: true,
            printer: Some(printers::dynamic_resources::RESOURCE_CLAIM),
            ..DEFAULT
        },
    ),
    ("resource.k8s.io", "resourceclaimtemplates", KindFacts { printer: Some(printers::NAME_AND_AGE), ..DEFAULT }),
    (
        "resource.k8s.io",
        "resourceslices",
        KindFacts { generation: SPEC, printer: Some(resource_slice::PRINTER), ..DEFAULT },
    ),
    (
        "scheduling.k8s.io",
        "podgroups",
        KindFacts { keeps_metadata_on_status: true, printer: Some(pod_group::PRINTER), ..DEFAULT },
    ),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        KindFacts {
            generation: Generation::Constant,
            undeletable: Some(Undeletable {
                names: &priority_class::SYSTEM_NAMES,
                reason: "this is a system priority class and cannot be deleted",
            }),
            printer: Some(priority_class::PRINTER),
            ..DEFAULT
        },
    ),
    ("scheduling.k8s.io", "workloads", KindFacts { printer: Some(workload::PRINTER), ..DEFAULT }),
    ("storage.k8s.io", "csidrivers", KindFacts { printer: Some(csi_driver::PRINTER), ..CONDITIONAL }),
    (
        "storage.k8s.io",
        "csinodes",
        KindFacts { repeats_metadata_rules: false, printer: Some(csi_node::PRINTER), ..CONDITIONAL },
    ),
    ("storage.k8s.io", "csistoragecapacities", CONDITIONAL),
    ("storage.k8s.io", "storageclasses", KindFacts { printer: Some(storage_class::PRINTER), ..DEFAULT }),
    (
        "storage.k8s.io",
        "volumeattachments",
        KindFacts {
            repeats_metadata_rules: false,
            keeps_metadata_on_status: true,
            printer: Some(volume_attachment::PRINTER),
            ..CONDITIONAL
        },
    ),
    (
        "storage.k8s.io",
        "volumeattributesclasses",
        KindFacts { printer: Some(volume_attributes_class::PRINTER), ..DEFAULT },
    ),
    (
        "storagemigration.k8s.io",
        "storageversionmigrations",
        KindFacts { keeps_metadata_on_status: true, printer: Some(storage_version_migration::PRINTER), ..CONDITIONAL },
    ),
];

/// The facts of a resource; the defaults if the resource is unknown.
pub fn facts(group: &str, resource: &str) -> &'static KindFacts {
    let row = TABLE.iter().find(|(g, r, _)| (*g, *r) == (group, resource));
    row.map_or(&KindFacts::DEFAULT, |(_, _, facts)| facts)
}

/// The group and resource of every row.
#[cfg(test)]
pub(super) fn resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().map(|(group, resource, _)| (*group, *resource))
}
