//! The built-in resources as discovery describes them.

use windlass_schema::types::{StructId, TypeTable};

/// Everything the generated table holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// The struct types.
    pub types: TypeTable,
    /// The API groups in the order discovery lists them; the core group has an empty name and comes first.
    pub groups: Vec<Group>,
    /// The resources, in discovery's order within each group version.
    pub resources: Vec<Resource>,
}

/// An API group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name; empty for the core group.
    pub name: Box<str>,
    /// Served versions, the preferred one first.
    pub versions: Vec<Box<str>>,
}

/// A resource in one group version.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// The group; empty for the core group.
    pub group: Box<str>,
    /// The version.
    pub version: Box<str>,
    /// The plural name, as it stands in paths.
    pub plural: Box<str>,
    /// The singular name.
    pub singular: Box<str>,
    /// The kind.
    pub kind: Box<str>,
    /// Short names that kubectl accepts.
    pub short_names: Vec<Box<str>>,
    /// Categories, such as `all`.
    pub categories: Vec<Box<str>>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The verbs, sorted as discovery has them.
    pub verbs: Vec<Box<str>>,
    /// The hash that discovery publishes; empty for resources that are not stored (reviews).
    pub storage_version_hash: Box<str>,
    /// The struct of the object.
    pub ty: StructId,
    /// Subresources.
    pub subresources: Vec<Subresource>,
}

/// A subresource.
#[derive(Debug, Clone, PartialEq)]
pub struct Subresource {
    /// The name: `status`, `scale`, `eviction`...
    pub name: Box<str>,
    /// The group of the body where it differs from the resource's (discovery's `group`); empty if not given.
    pub group: Box<str>,
    /// The version of the body, if given.
    pub version: Box<str>,
    /// The kind of the body.
    pub kind: Box<str>,
    /// The verbs.
    pub verbs: Vec<Box<str>>,
    /// The struct of the body, where the table knows it.
    pub ty: Option<StructId>,
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
