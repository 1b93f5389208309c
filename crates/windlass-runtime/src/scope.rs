//! Scopes: what to watch of a resource.

/// The part of a resource that an informer covers; all of it by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Restricts the scope to a namespace.
    pub namespace: Option<String>,
    /// Restricts the scope to objects whose labels match this selector, such as `app=web,tier!=cache`.
    pub labels: Option<String>,
    /// Restricts the scope to objects whose fields match this selector, such as `spec.nodeName=node-1`.
    pub fields: Option<String>,
}

impl Scope {
    /// Returns a scope with all objects of all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns a scope with the objects of one namespace; of all namespaces if the name is empty.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()).filter(|namespace| !namespace.is_empty()), ..Self::default() }
    }

    /// Restricts the scope to objects with matching labels.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Restricts the scope to objects with matching fields. For `metadata.name` and `metadata.namespace`, it can be
    /// decided locally whether an object matches. For other fields only the API server knows, so a cache of such a
    /// scope does not show a newly created object before the watch delivers it.
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
