//! How much of a resource is watched.

/// The part of a resource that an informer covers. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects whose labels match this selector, as in `app=web,tier!=cache`.
    pub labels: Option<String>,
    /// Only objects whose fields match this selector, as in `spec.nodeName=node-1`.
    pub fields: Option<String>,
}

impl Scope {
    /// All objects, of all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects of one namespace; of all if it has no name.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()).filter(|namespace| !namespace.is_empty()), ..Self::default() }
    }

    /// Narrows the scope to objects with matching labels.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Narrows the scope to objects with matching fields. Whether an object matches is known here if the fields are
    /// `metadata.name` and `metadata.namespace`; else only the server knows, and what was just created is not read from
    /// a cache of such a scope before the watch has brought it.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_without_a_name_is_all_of_them() {
        assert_eq!(Scope::namespace(""), Scope::all());
        assert_eq!(Scope::namespace("a").namespace.as_deref(), Some("a"));
    }
}
