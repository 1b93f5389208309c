//! Names of objects.

use std::{fmt, sync::Arc};

use kube::{Resource, core::ObjectMeta};

/// Namespace and name of an object: what a queue holds and a cache is asked for.
///
/// Its text is shared by clones, which allocate nothing. Ordered by namespace, then name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `namespace NUL name`; nothing before the NUL when the object has no namespace. Neither part can contain a NUL.
    text: Arc<str>,
    namespace: u32,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(namespace, name)
    }

    /// The key of an object of the cluster.
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    /// The key of an object. One that has no name yet has an empty one.
    pub fn of(object: &impl Resource) -> Self {
        Self::of_meta(object.meta())
    }

    /// The same of its metadata.
    pub(crate) fn of_meta(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    fn new(namespace: &str, name: &str) -> Self {
        let length = u32::try_from(namespace.len()).expect("a namespace must be shorter than 4 GiB");
        Self { text: [namespace, "\0", name].concat().into(), namespace: length }
    }

    /// The namespace; none for objects of the cluster.
    pub fn namespace(&self) -> Option<&str> {
        let namespace = &self.text[..self.namespace as usize];
        (!namespace.is_empty()).then_some(namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.text[self.namespace as usize + 1..]
    }
}

/// `namespace/name`, or `name` for objects of the cluster.
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
