//! API verbs.

use std::fmt;

/// An API verb: what a request does to a resource. The order is that of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Creates an object.
    Create,
    /// Deletes an object.
    Delete,
    /// Deletes all selected objects of a collection.
    DeleteCollection,
    /// Reads an object.
    Get,
    /// Reads a collection.
    List,
    /// Changes an object by a patch, or applies a configuration.
    Patch,
    /// Replaces an object.
    Update,
    /// Watches a collection.
    Watch,
    /// An HTTP method that is not an API verb; no resource supports it.
    Unknown,
}

impl Verb {
    /// The verbs that resources support.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    /// Returns the verb with this name in roles and discovery. Roles can also grant verbs that no resource supports,
    /// such as `bind`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == name)
    }

    /// Name of the verb in roles and discovery; empty for [`Verb::Unknown`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
            Self::Unknown => "",
        }
    }

    /// Returns whether the verb only reads.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_have_names_and_their_order() {
        assert!(Verb::ALL.is_sorted_by_key(|verb| verb.as_str()) && Verb::ALL.is_sorted());
        for verb in Verb::ALL {
            assert_eq!(Verb::from_name(verb.as_str()), Some(verb));
        }
        for other in ["", "GET", "bind", "deletecollections"] {
            assert_eq!(Verb::from_name(other), None, "{other}");
        }
    }
}
