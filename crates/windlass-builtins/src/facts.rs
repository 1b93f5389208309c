//! Constant properties of a kind that its schema does not state: the rule for names, the changes that increment
//! `metadata.generation`, the columns of `kubectl get`.
//!
//! The facts of built-in kinds are listed in one table, [`crate::kinds::facts`].

use serde_json::Value;

use crate::columns::Printer;

/// Constant properties of a kind. [`KindFacts::DEFAULT`] suits a kind without special rules.
#[derive(Debug, Clone, Copy)]
pub struct KindFacts {
    /// Rule for `metadata.name`.
    pub name_rule: NameRule,
    /// Changes that increment `metadata.generation`.
    pub generation: Generation,
    /// Whether a PUT to a name that does not exist creates the object.
    pub creates_on_update: bool,
    /// Whether an update without a resource version is accepted.
    pub allows_unconditional_update: bool,
    /// Whether a client may set the status of a new object.
    pub accepts_status_on_create: bool,
    /// Whether an update of the status leaves the metadata as it is, except for managed fields. It does for the kinds
    /// that have come to Kubernetes later.
    pub keeps_metadata_on_status: bool,
    /// Whether the rules of the kind include those about changed metadata, so that their errors are reported twice.
    pub repeats_metadata_rules: bool,
    /// Whether a deletion without a propagation policy orphans the dependents. True for kinds that are older than
    /// garbage collection.
    pub orphans_by_default: bool,
    /// Whether deletions ignore the propagation policy, because nothing depends on objects of the kind.
    pub ignores_propagation_policy: bool,
    /// Warning for a deletion without a propagation policy.
    pub deletion_warning: Option<&'static str>,
    /// Objects that every cluster has and that cannot be deleted by their names.
    pub undeletable: Option<Undeletable>,
    /// Whether objects also have finalizers in `spec.finalizers`, and stay until these are removed as well.
    pub finalizers_in_spec: bool,
    /// Columns of `kubectl get`; `None` for the generic Name and Created At.
    pub printer: Option<Printer>,
}

impl KindFacts {
    /// The facts of a kind without special rules.
    pub const DEFAULT: Self = Self {
        name_rule: NameRule::DnsSubdomain,
        generation: Generation::None,
        creates_on_update: false,
        allows_unconditional_update: true,
        accepts_status_on_create: false,
        keeps_metadata_on_status: false,
        repeats_metadata_rules: true,
        orphans_by_default: false,
        ignores_propagation_policy: false,
        deletion_warning: None,
        undeletable: None,
        finalizers_in_spec: false,
        printer: None,
    };
}

/// Objects of a kind that cannot be deleted.
#[derive(Debug, Clone, Copy)]
pub struct Undeletable {
    /// Their names.
    pub names: &'static [&'static str],
    /// The reason in the message of the server.
    pub reason: &'static str,
}

/// The rules for `metadata.name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123), the rule of most kinds.
    DnsSubdomain,
    /// A DNS label (RFC 1123): namespaces, for example.
    DnsLabel,
    /// A DNS label (RFC 1035).
    Dns1035Label,
    /// Anything that can be a path segment: RBAC objects, for example.
    PathSegment,
    /// A rule that depends on the object: the [strategy](crate::strategy) validates the name.
    OfKind,
}

/// The changes that increment `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The kind does not set `metadata.generation`.
    None,
    /// The generation is 1 and never changes.
    Constant,
    /// Any change outside metadata and status.
    Spec,
    /// Any change of the fields at these JSON pointers.
    Fields(&'static [&'static str]),
    /// Any change outside metadata. Custom resources use this: without a status subresource, their status is a field
    /// like any other, and with one, the old status has been restored before generations are compared.
    AllButMetadata,
}

impl Generation {
    /// Returns whether objects of the kind have a `metadata.generation`.
    pub fn is_set(self) -> bool {
        self != Self::None
    }

    /// Returns whether an update of the object itself, not of a subresource, increments `metadata.generation`. To be
    /// called after [`Strategy::prepare_for_update`](crate::strategy::Strategy::prepare_for_update).
    pub fn changes(self, object: &Value, old: &Value) -> bool {
        match self {
            Self::None | Self::Constant => false,
            Self::Spec => differ(object, old, &["apiVersion", "kind", "metadata", "status"]),
            Self::AllButMetadata => differ(object, old, &["metadata"]),
            Self::Fields(pointers) => pointers.iter().any(|pointer| {
                // An absent field is the same as null.
                object.pointer(pointer).unwrap_or(&Value::Null) != old.pointer(pointer).unwrap_or(&Value::Null)
            }),
        }
    }
}

/// Returns whether two objects differ outside the ignored top-level fields.
fn differ(object: &Value, old: &Value, ignored: &[&str]) -> bool {
    let (Some(new), Some(old)) = (object.as_object(), old.as_object()) else { return object != old };
    let differs = |name: &String| !ignored.contains(&name.as_str()) && new.get(name) != old.get(name);
    new.keys().chain(old.keys()).any(differs)
}
