//! The state from a streaming list.

use hashbrown::HashMap;

use super::UnreadableObject;
use crate::key::ObjectKey;

/// Objects collected from a streaming list until it announces that they are complete.
///
/// They arrive as additions. Changes in the meantime may follow before the end is announced.
pub(super) struct Initial<O> {
    added: Vec<O>,
    /// Later states of objects; `None` if deleted.
    changed: HashMap<ObjectKey, Option<O>>,
    /// Objects whose last state failed to deserialize.
    unreadable: HashMap<ObjectKey, UnreadableObject>,
}

impl<O> Default for Initial<O> {
    fn default() -> Self {
        Self { added: Vec::new(), changed: HashMap::new(), unreadable: HashMap::new() }
    }
}

impl<O> Initial<O> {
    /// Returns the number of objects received.
    pub(super) fn len(&self) -> usize {
        self.added.len() + self.changed.len()
    }

    pub(super) fn added(&mut self, object: O, key: impl Fn(&O) -> ObjectKey) {
        if !self.unreadable.is_empty() {
            self.unreadable.remove(&key(&object));
        }
        if !self.changed.is_empty()
            && let Some(state) = self.changed.get_mut(&key(&object))
        {
            *state = Some(object);
            return;
        }
        self.added.push(object);
    }

    pub(super) fn modified(&mut self, key: ObjectKey, object: O) {
        self.unreadable.remove(&key);
        self.changed.insert(key, Some(object));
    }

    pub(super) fn deleted(&mut self, key: ObjectKey) {
        self.unreadable.remove(&key);
        self.changed.insert(key, None);
    }

    /// An object was added or modified, and cannot be read. An earlier state of it is kept.
    pub(super) fn unreadable(&mut self, object: UnreadableObject) {
        self.unreadable.insert(object.key.clone(), object);
    }

    /// Returns all readable objects, and the unreadable ones.
    pub(super) fn finish(self, key: impl Fn(&O) -> ObjectKey) -> (Vec<O>, Vec<UnreadableObject>) {
        let Self { mut added, changed, unreadable } = self;
        if !changed.is_empty() {
            added.retain(|object| !changed.contains_key(&key(object)));
            added.extend(changed.into_values().flatten());
        }
        (added, unreadable.into_values().collect())
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
            .0
            .iter()
            .map(|object| (object.metadata.name.clone().unwrap(), object.metadata.resource_version.clone().unwrap()))
            .collect();
        found.sort();
        let found: Vec<_> = found.iter().map(|(name, revision)| (name.as_str(), revision.as_str())).collect();
        assert_eq!(found, [("back", "5"), ("changed", "2"), ("kept", "1"), ("new", "6")]);
    }

    #[test]
    fn an_object_is_unreadable_if_its_last_state_is() {
        let unreadable = |name: &str| UnreadableObject {
            key: key(&object(name, "1")),
            uid: "u".into(),
            revision: 1,
            problem: "a field is missing".into(),
            labels: Default::default(),
            controller: None,
        };
        let mut initial = Initial::default();
        for name in ["always", "readable", "added", "gone"] {
            initial.unreadable(unreadable(name));
        }
        initial.modified(key(&object("readable", "2")), object("readable", "2"));
        initial.added(object("added", "2"), key);
        initial.deleted(key(&object("gone", "2")));
        initial.added(object("before", "1"), key);
        initial.unreadable(unreadable("before"));
        let (objects, mut unreadable) = initial.finish(key);
        unreadable.sort_by(|a, b| a.key.cmp(&b.key));
        let unreadable: Vec<_> = unreadable.iter().map(|object| object.key.name()).collect();
        assert_eq!(unreadable, ["always", "before"]);
        assert_eq!(objects.len(), 3, "the earlier state of one of them is kept");
    }
}
