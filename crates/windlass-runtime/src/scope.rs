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

    /// Returns the name of the only object, if the field selector is no more than that.
    pub(crate) fn name(&self) -> Option<&str> {
        let name = self.fields.as_deref()?.strip_prefix("metadata.name=")?;
        let name = name.strip_prefix('=').unwrap_or(name);
        (!name.is_empty() && !name.contains([',', '=', '!', '\\'])).then_some(name)
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

    #[test]
    fn a_field_selector_may_be_a_name() {
        let name = |fields: &str| Scope::all().fields(fields).name().map(str::to_owned);
        for fields in ["metadata.name=a.b", "metadata.name==a.b"] {
            assert_eq!(name(fields).as_deref(), Some("a.b"));
        }
        for fields in ["", "metadata.name=", "metadata.name!=a", "metadata.name=a,metadata.namespace=b", "spec.name=a"]
        {
            assert_eq!(name(fields), None, "{fields}");
        }
    }
}
