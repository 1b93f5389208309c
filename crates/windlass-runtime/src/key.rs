//! Names of objects.

use std::{fmt, sync::Arc};

use kube::{Resource, core::ObjectMeta};

/// Namespace and name of an object, the key of queues and caches.
///
/// Clones share the text and allocate nothing. Sorted by namespace, then by name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `namespace NUL name`; nothing before the NUL if the object has no namespace. Neither part can contain a NUL.
    text: Arc<str>,
    namespace: u32,
}

impl ObjectKey {
    /// Returns the key of a namespaced object.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(namespace, name)
    }

    /// Returns the key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    /// Returns the key of an object. The name is empty if it has none yet.
    pub fn of(object: &impl Resource) -> Self {
        Self::of_meta(object.meta())
    }

    /// Returns the key of an object's metadata.
    pub(crate) fn of_meta(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    fn new(namespace: &str, name: &str) -> Self {
        let length = u32::try_from(namespace.len()).expect("a namespace is shorter than 4 GiB");
        Self { text: [namespace, "\0", name].concat().into(), namespace: length }
    }

    /// Returns the namespace; `None` for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        let namespace = &self.text[..self.namespace as usize];
        (!namespace.is_empty()).then_some(namespace)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.text[self.namespace as usize + 1..]
    }
}

/// `namespace/name`, or `name` for cluster-scoped objects.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = self.namespace() {
            write!(f, "{namespace}/")?;
        }
        f.write_str(self.name())
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_parts_it_was_made_of() {
        let key = ObjectKey::namespaced("default", "web");
        assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), (Some("default"), "web", "default/web"));
        let key = ObjectKey::cluster("node-1");
        assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), (None, "node-1", "node-1"));
    }

    #[test]
    fn keys_of_different_objects_differ() {
        assert_ne!(ObjectKey::namespaced("a", "bc"), ObjectKey::namespaced("ab", "c"));
        assert!(ObjectKey::namespaced("a", "z") < ObjectKey::namespaced("ab", "a"));
    }
}
