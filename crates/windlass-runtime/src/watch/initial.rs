//! The state from a streaming list.

use hashbrown::HashMap;

use crate::key::ObjectKey;

/// Objects collected from a streaming list until it announces that they are complete.
///
/// They arrive as additions. Changes in the meantime may follow before the end is announced.
pub(super) struct Initial<O> {
    added: Vec<O>,
    /// Later states of objects; `None` if deleted.
    changed: HashMap<ObjectKey, Option<O>>,
}

impl<O> Default for Initial<O> {
    fn default() -> Self {
        Self { added: Vec::new(), changed: HashMap::new() }
    }
}

impl<O> Initial<O> {
    /// Returns the number of objects received.
    pub(super) fn len(&self) -> usize {
        self.added.len() + self.changed.len()
    }

    pub(super) fn added(&mut self, object: O, key: impl FnOnce(&O) -> ObjectKey) {
        if !self.changed.is_empty()
            && let Some(state) = self.changed.get_mut(&key(&object))
        {
            *state = Some(object);
            return;
        }
        self.added.push(object);
    }

    pub(super) fn modified(&mut self, key: ObjectKey, object: O) {
        self.changed.insert(key, Some(object));
    }

    pub(super) fn deleted(&mut self, key: ObjectKey) {
        self.changed.insert(key, None);
    }

    /// Returns all objects.
    pub(super) fn finish(self, key: impl Fn(&O) -> ObjectKey) -> Vec<O> {
        let Self { mut added, changed } = self;
        if !changed.is_empty() {
            added.retain(|object| !changed.contains_key(&key(object)));
            added.extend(changed.into_values().flatten());
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn key(object: &Arc<ConfigMap>) -> ObjectKey {
        ObjectKey::of(&**object)
    }

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
            initial.added(object(name, "1"), key);
        }
        initial.modified(key(&object("changed", "2")), object("changed", "2"));
        initial.deleted(key(&object("gone", "3")));
        initial.deleted(key(&object("back", "4")));
        initial.added(object("back", "5"), key);
        initial.added(object("new", "6"), key);
        let mut found: Vec<_> = initial
            .finish(key)
            .iter()
            .map(|object| (object.metadata.name.clone().unwrap(), object.metadata.resource_version.clone().unwrap()))
            .collect();
        found.sort();
        let found: Vec<_> = found.iter().map(|(name, revision)| (name.as_str(), revision.as_str())).collect();
        assert_eq!(found, [("back", "5"), ("changed", "2"), ("kept", "1"), ("new", "6")]);
    }
}
