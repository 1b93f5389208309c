//! Making permissions.

use super::Permission;

impl Permission {
    /// Verbs on a resource in all namespaces, or of the cluster. The core group is empty.
    pub fn new(
        group: impl Into<String>,
        resource: impl Into<String>,
        verbs: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        Self { group: group.into(), resource: resource.into(), verbs: verbs.into_iter().collect(), ..Self::default() }
    }

    /// Only in this namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only with the object of this name, and those named before.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.names.insert(name.into());
        self
    }
}
