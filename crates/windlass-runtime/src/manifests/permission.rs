//! Construction of permissions.

use super::Permission;
use crate::object::Object;

impl Permission {
    /// Verbs on a resource in all namespaces, or on a cluster-scoped resource. The core group is empty.
    pub fn new(
        group: impl Into<String>,
        resource: impl Into<String>,
        verbs: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        Self { group: group.into(), resource: resource.into(), verbs: verbs.into_iter().collect(), ..Self::default() }
    }

    /// Verbs on the resource of a kind.
    pub fn of<K: Object<DynamicType: Default>>(verbs: impl IntoIterator<Item = &'static str>) -> Self {
        let dynamic = K::DynamicType::default();
        Self::new(K::group(&dynamic), K::plural(&dynamic), verbs)
    }

    /// Restricts the permission to a namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Restricts the permission to the object of this name, in addition to names that were added before.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.names.insert(name.into());
        self
    }
}
