//! The state that a stream brings.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::{key::ObjectKey, object::Object};

/// Objects collected from a stream until it says that they are all there.
///
/// They come as additions. What changes while they are sent may follow before the end is announced.
pub(super) struct Initial<K> {
    added: Vec<Arc<K>>,
    /// What became of objects since; none: gone.
    changed: HashMap<ObjectKey, Option<Arc<K>>>,
}

impl<K> Default for Initial<K> {
    fn default() -> Self {
        Self { added: Vec::new(), changed: HashMap::new() }
    }
}

impl<K: Object> Initial<K> {
    pub(super) fn added(&mut self, object: Arc<K>) {
        if !self.changed.is_empty()
            && let Some(state) = self.changed.get_mut(&ObjectKey::of(&*object))
        {
            *state = Some(object);
            return;
        }
        self.added.push(object);
    }

    pub(super) fn modified(&mut self, object: Arc<K>) {
        self.changed.insert(ObjectKey::of(&*object), Some(object));
    }

    pub(super) fn deleted(&mut self, key: ObjectKey) {
        self.changed.insert(key, None);
    }

    /// All objects.
    pub(super) fn finish(self) -> Vec<Arc<K>> {
        let Self { mut added, changed } = self;
        if !changed.is_empty() {
            added.retain(|object| !changed.contains_key(&ObjectKey::of(&**object)));
            added.extend(changed.into_values().flatten());
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(name: &str, revision: &str) -> Arc<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.into());
        object.metadata.resource_version = Some(revision.into());
        Arc::new(object)
    }

    #[test]
    fn changes_before_the_end_of_the_state_are_part_of_it() {
        let mut initial = Initial::default();
        for name in ["kept", "changed", "gone", "back"] {
            initial.added(object(name, "1"));
        }
        initial.modified(object("changed", "2"));
        initial.deleted(ObjectKey::of(&*object("gone", "3")));
        initial.deleted(ObjectKey::of(&*object("back", "4")));
        initial.added(object("back", "5"));
        initial.added(object("new", "6"));
        let mut found: Vec<_> = initial
            .finish()
            .iter()
            .map(|object| (object.metadata.name.clone().unwrap(), object.metadata.resource_version.clone().unwrap()))
            .collect();
        found.sort();
        let found: Vec<_> = found.iter().map(|(name, revision)| (name.as_str(), revision.as_str())).collect();
        assert_eq!(found, [("back", "5"), ("changed", "2"), ("kept", "1"), ("new", "6")]);
    }
}
