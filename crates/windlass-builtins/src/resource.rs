//! The built-in resources as discovery describes them.

use windlass_schema::types::{Str, StructId, TypeTable};

/// Everything the generated table holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// The struct types.
    pub types: TypeTable,
    /// The API groups in the order discovery lists them; the core group has an empty name and comes first.
    pub groups: Vec<Group>,
    /// The resources, in discovery's order within each group version.
    pub resources: Vec<Resource>,
    /// The kinds that stand in bodies: of resources, their lists, subresources, options and `Status`.
    pub kinds: Vec<Kind>,
}

/// The struct of a group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// The group; empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The kind.
    pub kind: Str,
    /// Its struct.
    pub ty: StructId,
}

/// An API group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name; empty for the core group.
    pub name: Str,
    /// Served versions, the preferred one first.
    pub versions: Vec<Str>,
}

/// A resource in one group version.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// The group; empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The plural name, as it stands in paths.
    pub plural: Str,
    /// The singular name.
    pub singular: Str,
    /// The kind.
    pub kind: Str,
    /// Short names that kubectl accepts.
    pub short_names: Vec<Str>,
    /// Categories, such as `all`.
    pub categories: Vec<Str>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The verbs, sorted as discovery has them.
    pub verbs: Vec<Str>,
    /// The hash that discovery publishes; empty for resources that are not stored (reviews).
    pub storage_version_hash: Str,
    /// Whether a deletion that is done answers with the object, not with a `Status`.
    pub deletion_returns_object: bool,
    /// The struct of the object.
    pub ty: StructId,
    /// Subresources.
    pub subresources: Vec<Subresource>,
}

/// A subresource.
#[derive(Debug, Clone, PartialEq)]
pub struct Subresource {
    /// The name: `status`, `scale`, `eviction`...
    pub name: Str,
    /// The group of the body where it differs from the resource's (discovery's `group`); empty if not given.
    pub group: Str,
    /// The version of the body, if given.
    pub version: Str,
    /// The kind of the body.
    pub kind: Str,
    /// The verbs.
    pub verbs: Vec<Str>,
    /// The struct of the body, where the table knows it.
    pub ty: Option<StructId>,
}

impl Table {
    /// The resource of a group, version and plural name.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.resources.iter().find(|have| have.plural == plural && have.group == group && have.version == version)
    }

    /// The struct of a kind in a group version such as `v1` or `apps/v1`. `DeleteOptions`, `WatchEvent` and `Status`
    /// belong to every group version.
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
    /// Whether the resource has a verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|have| &**have == verb)
    }

    /// The subresource of a name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| &*sub.name == name)
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }
}
