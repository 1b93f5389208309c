//! The strategies of kinds that have no file of their own: a line each of what cannot be told from the schema.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::columns_table::{Printer, printer};
use crate::object::text;
use crate::strategy::{Column, NameRule, Strategy};

use NameRule::{DnsSubdomain, PathSegment};
use Update::{Any, Conditional};

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
}

/// What `metadata.generation` counts.
#[derive(Clone, Copy, PartialEq)]
enum Generation {
    /// Nothing; the field is not there.
    None,
    /// Changes outside metadata and status.
    Spec,
}

/// Every resource without a file of its own.
#[rustfmt::skip]
const KINDS: &[(&str, &str, NameRule, Update, Generation)] = &[
    ("", "bindings", DnsSubdomain, Any, Generation::None),
    ("", "componentstatuses", DnsSubdomain, Any, Generation::None),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", DnsSubdomain, Conditional, Generation::Spec),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", DnsSubdomain, Conditional, Generation::Spec),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", DnsSubdomain, Conditional, Generation::Spec),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", DnsSubdomain, Conditional, Generation::Spec),
    ("apiregistration.k8s.io", "apiservices", PathSegment, Conditional, Generation::None),
    ("resource.k8s.io", "deviceclasses", DnsSubdomain, Any, Generation::Spec),
    ("resource.k8s.io", "resourceclaims", DnsSubdomain, Any, Generation::None),
    ("resource.k8s.io", "resourceclaimtemplates", DnsSubdomain, Any, Generation::None),
    ("resource.k8s.io", "resourceslices", DnsSubdomain, Any, Generation::Spec),
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
    fn name_rule(&self) -> NameRule {
        self.names
    }

    fn has_generation(&self) -> bool {
        self.generation != Generation::None
    }

    fn changes_generation(&self, object: &Value, old: &Value) -> bool {
        self.generation == Generation::Spec && Plain.changes_generation(object, old)
    }

    fn allows_unconditional_update(&self) -> bool {
        self.update == Any
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        match (self.group, self.resource) {
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
