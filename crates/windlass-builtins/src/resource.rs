//! The built-in resources as described by discovery.

use windlass_schema::types::{Str, StructId, TypeTable};

use crate::verb::Verb;

/// The contents of the generated table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Struct types.
    pub types: TypeTable,
    /// API groups in the order of discovery; the core group has an empty name and comes first.
    pub groups: Vec<Group>,
    /// Resources in the order of discovery within each group version.
    pub resources: Vec<Resource>,
    /// Kinds that occur in bodies: resources, their lists, subresources, options and `Status`.
    pub kinds: Vec<Kind>,
}

/// A kind in a group version, with its struct type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Group; empty for the core group.
    pub group: Str,
    /// Version.
    pub version: Str,
    /// Kind.
    pub kind: Str,
    /// Struct type.
    pub ty: StructId,
}

/// An API group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Name; empty for the core group.
    pub name: Str,
    /// Served versions, the preferred one first.
    pub versions: Vec<Str>,
}

/// A resource in one group version.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Group; empty for the core group.
    pub group: Str,
    /// Version.
    pub version: Str,
    /// Plural name, as used in paths.
    pub plural: Str,
    /// Singular name.
    pub singular: Str,
    /// Kind.
    pub kind: Str,
    /// Short names that kubectl accepts.
    pub short_names: Vec<Str>,
    /// Categories, such as `all`.
    pub categories: Vec<Str>,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// Verbs, sorted as in discovery.
    pub verbs: Vec<Verb>,
    /// Storage version hash of discovery; empty for resources that are not stored (reviews).
    pub storage_version_hash: Str,
    /// Whether a completed deletion returns the object instead of a `Status`.
    pub deletion_returns_object: bool,
    /// Struct type of the object.
    pub ty: StructId,
    /// Subresources.
    pub subresources: Vec<Subresource>,
}

/// A subresource.
#[derive(Debug, Clone, PartialEq)]
pub struct Subresource {
    /// Name: `status`, `scale`, `eviction`...
    pub name: Str,
    /// Group of the body if it differs from the resource's (`group` in discovery); otherwise empty.
    pub group: Str,
    /// Version of the body, if specified.
    pub version: Str,
    /// Kind of the body.
    pub kind: Str,
    /// Verbs.
    pub verbs: Vec<Verb>,
    /// Struct type of the body, if the table has it.
    pub ty: Option<StructId>,
}

impl Table {
    /// Returns the resource of a group, version and plural name.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.resources.iter().find(|have| have.plural == plural && have.group == group && have.version == version)
    }

    /// Returns the struct type of a kind in a group version such as `v1` or `apps/v1`. `DeleteOptions`, `WatchEvent`
    /// and `Status` belong to every group version.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let shared = matches!(kind, "DeleteOptions" | "WatchEvent" | "Status");
        self.kinds
            .iter()
            .find(|have| have.kind == kind && (shared || (have.group == group && have.version == version)))
            .map(|have| have.ty)
    }
}

impl Resource {
    /// Returns whether the resource supports a verb.
    pub fn has_verb(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// Returns the subresource with this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| &*sub.name == name)
    }

    /// Returns the API version: `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }
}
