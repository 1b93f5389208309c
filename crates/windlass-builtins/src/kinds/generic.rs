//! The strategies of kinds that have no file of their own: a line each of what cannot be told from the schema.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names::is_valid_ip;

use super::columns_table::{Printer, printer};
use crate::object::{integer, text};
use crate::strategy::{Column, NameRule, Strategy};

use NameRule::{DnsLabel, DnsSubdomain, PathSegment};
use Update::{Any, Conditional, Creates, CreatesConditional};

/// A kind with nothing special.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Strategy for Plain {}

/// A kind of the table.
struct Kind {
    group: &'static str,
    resource: &'static str,
    names: NameRule,
    update: Update,
    generation: Generation,
    printer: Option<Printer>,
}

/// What a PUT may do besides replacing the version that the client has seen.
#[derive(Clone, Copy, PartialEq)]
enum Update {
    /// Replace any version.
    Any,
    /// Nothing: the client must say which version it replaces.
    Conditional,
    /// Replace any version, and create what is not there.
    Creates,
    /// Create what is not there.
    CreatesConditional,
}

/// What `metadata.generation` counts.
#[derive(Clone, Copy, PartialEq)]
enum Generation {
    /// Nothing; the field is not there.
    None,
    /// Changes outside metadata and status.
    Spec,
    /// Nothing; the field stays 1.
    Fixed,
}

/// Every resource without a file of its own.
#[rustfmt::skip]
const KINDS: &[(&str, &str, NameRule, Update, Generation)] = &[
    ("", "bindings", DnsSubdomain, Any, Generation::None),
    ("", "componentstatuses", DnsSubdomain, Any, Generation::None),
    ("", "limitranges", DnsSubdomain, Creates, Generation::None),
    ("", "persistentvolumeclaims", DnsSubdomain, Any, Generation::None),
    ("", "persistentvolumes", DnsSubdomain, Any, Generation::None),
    ("", "podtemplates", DnsSubdomain, Any, Generation::Spec),
    ("", "replicationcontrollers", DnsSubdomain, Any, Generation::Spec),
    ("", "resourcequotas", DnsSubdomain, Any, Generation::None),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", DnsSubdomain, Conditional, Generation::Spec),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", DnsSubdomain, Conditional, Generation::Spec),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", DnsSubdomain, Conditional, Generation::Spec),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", DnsSubdomain, Conditional, Generation::Spec),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", DnsSubdomain, Conditional, Generation::Spec),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", DnsSubdomain, Conditional, Generation::Spec),
    ("apiregistration.k8s.io", "apiservices", PathSegment, Conditional, Generation::None),
    ("apps", "daemonsets", DnsSubdomain, Any, Generation::Spec),
    ("apps", "statefulsets", DnsLabel, Any, Generation::Spec),
    ("autoscaling", "horizontalpodautoscalers", DnsSubdomain, Any, Generation::None),
    ("batch", "cronjobs", DnsSubdomain, Any, Generation::Spec),
    ("batch", "jobs", DnsSubdomain, Any, Generation::Spec),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", DnsSubdomain, Any, Generation::Spec),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", DnsSubdomain, Any, Generation::Spec),
    ("networking.k8s.io", "ingressclasses", DnsSubdomain, Any, Generation::Spec),
    ("networking.k8s.io", "ingresses", DnsSubdomain, Any, Generation::Spec),
    ("networking.k8s.io", "ipaddresses", PathSegment, Any, Generation::None),
    ("networking.k8s.io", "networkpolicies", DnsSubdomain, Any, Generation::Spec),
    ("networking.k8s.io", "servicecidrs", DnsSubdomain, Any, Generation::None),
    ("node.k8s.io", "runtimeclasses", DnsSubdomain, CreatesConditional, Generation::None),
    ("policy", "poddisruptionbudgets", PathSegment, Conditional, Generation::Spec),
    ("rbac.authorization.k8s.io", "clusterrolebindings", PathSegment, Creates, Generation::None),
    ("rbac.authorization.k8s.io", "clusterroles", PathSegment, Creates, Generation::None),
    ("rbac.authorization.k8s.io", "rolebindings", PathSegment, Creates, Generation::None),
    ("rbac.authorization.k8s.io", "roles", PathSegment, Creates, Generation::None),
    ("resource.k8s.io", "deviceclasses", DnsSubdomain, Any, Generation::Spec),
    ("resource.k8s.io", "resourceclaims", DnsSubdomain, Any, Generation::None),
    ("resource.k8s.io", "resourceclaimtemplates", DnsSubdomain, Any, Generation::None),
    ("resource.k8s.io", "resourceslices", DnsSubdomain, Any, Generation::Spec),
    ("scheduling.k8s.io", "priorityclasses", DnsSubdomain, Any, Generation::Fixed),
    // The real server counts the generation of a driver from its first change on, so most have none.
    ("storage.k8s.io", "csidrivers", DnsSubdomain, Conditional, Generation::None),
    ("storage.k8s.io", "csinodes", DnsSubdomain, Conditional, Generation::None),
    ("storage.k8s.io", "csistoragecapacities", DnsSubdomain, Conditional, Generation::None),
    ("storage.k8s.io", "storageclasses", DnsSubdomain, Any, Generation::None),
    ("storage.k8s.io", "volumeattachments", DnsSubdomain, Conditional, Generation::None),
    ("storage.k8s.io", "volumeattributesclasses", DnsSubdomain, Any, Generation::None),
    // Reviews are answered, not stored.
    ("authentication.k8s.io", "selfsubjectreviews", PathSegment, Any, Generation::None),
    ("authentication.k8s.io", "tokenreviews", PathSegment, Any, Generation::None),
    ("authorization.k8s.io", "localsubjectaccessreviews", PathSegment, Any, Generation::None),
    ("authorization.k8s.io", "selfsubjectaccessreviews", PathSegment, Any, Generation::None),
    ("authorization.k8s.io", "selfsubjectrulesreviews", PathSegment, Any, Generation::None),
    ("authorization.k8s.io", "subjectaccessreviews", PathSegment, Any, Generation::None),
];

static STRATEGIES: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let kind = |&(group, resource, names, update, generation)| {
        let printer = printer(group, resource);
        Kind { group, resource, names, update, generation, printer }
    };
    KINDS.iter().map(kind).collect()
});

/// The strategy of a resource without a file of its own.
pub fn strategy(group: &str, resource: &str) -> &'static dyn Strategy {
    match STRATEGIES.iter().find(|kind| kind.group == group && kind.resource == resource) {
        Some(kind) => kind,
        None => &Plain,
    }
}

impl Strategy for Kind {
    fn validate(&self, object: &Value) -> ErrorList {
        if self.resource != "ipaddresses" {
            return ErrorList::new();
        }
        // The name is the address.
        is_valid_ip(&Path::new("metadata").child("name"), text(object, "/metadata/name"))
    }

    fn name_rule(&self) -> NameRule {
        self.names
    }

    fn has_generation(&self) -> bool {
        self.generation != Generation::None
    }

    fn changes_generation(&self, object: &Value, old: &Value) -> bool {
        self.generation == Generation::Spec && Plain.changes_generation(object, old)
    }

    fn creates_on_update(&self) -> bool {
        matches!(self.update, Creates | CreatesConditional)
    }

    fn allows_unconditional_update(&self) -> bool {
        matches!(self.update, Any | Creates)
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        let number = |pointer| integer(object, pointer).unwrap_or_default().to_string();
        match (self.group, self.resource) {
            ("", "replicationcontrollers") => vec![("status.replicas", number("/status/replicas"))],
            ("batch", "jobs") => vec![("status.successful", number("/status/succeeded"))],
            ("resource.k8s.io", "resourceslices") => vec![
                ("spec.nodeName", text(object, "/spec/nodeName").to_owned()),
                ("spec.driver", text(object, "/spec/driver").to_owned()),
            ],
            _ => Vec::new(),
        }
    }

    fn columns(&self) -> &'static [Column] {
        self.printer.map(|printer| printer.columns).unwrap_or_default()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.printer.map(|printer| (printer.cells)(object, now)).unwrap_or_default()
    }
}
