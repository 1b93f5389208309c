//! Parsed parameters, so that requests share them.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use windlass_store::Revision;

/// The number of objects that are kept.
const KEPT: usize = 128;

/// Parsed objects by their revisions, as an endpoint serves them.
pub(super) struct Parsed<E> {
    endpoint: Option<Arc<E>>,
    objects: HashMap<Revision, Arc<Value>>,
}

impl<E> Default for Parsed<E> {
    fn default() -> Self {
        Self { endpoint: None, objects: HashMap::new() }
    }
}

impl<E> Parsed<E> {
    /// Returns the object that was written at a revision.
    pub(super) fn find(&self, endpoint: &Arc<E>, revision: Revision) -> Option<Arc<Value>> {
        if self.is_of(endpoint) { self.objects.get(&revision).cloned() } else { None }
    }

    /// Caches an object. Drops all others if there are too many, or if the endpoint was replaced.
    pub(super) fn insert(&mut self, endpoint: &Arc<E>, revision: Revision, object: Arc<Value>) {
        if !self.is_of(endpoint) || self.objects.len() >= KEPT {
            self.endpoint = Some(endpoint.clone());
            self.objects.clear();
        }
        self.objects.insert(revision, object);
    }

    fn is_of(&self, endpoint: &Arc<E>) -> bool {
        self.endpoint.as_ref().is_some_and(|own| Arc::ptr_eq(own, endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_until_its_endpoint_is_replaced_or_there_are_too_many() {
        let (first, second) = (Arc::new("first"), Arc::new("second"));
        let (mut parsed, object) = (Parsed::default(), Arc::new(Value::from(1)));
        parsed.insert(&first, Revision(1), object.clone());
        assert!(parsed.find(&first, Revision(1)).is_some_and(|found| Arc::ptr_eq(&found, &object)));
        assert_eq!(parsed.find(&first, Revision(2)), None);
        assert_eq!(parsed.find(&second, Revision(1)), None);
        for revision in 2..=KEPT as u64 {
            parsed.insert(&first, Revision(revision), object.clone());
        }
        assert!(parsed.find(&first, Revision(1)).is_some());
        parsed.insert(&first, Revision(999), object.clone());
        assert_eq!(parsed.find(&first, Revision(1)), None);
        parsed.insert(&second, Revision(1000), object);
        assert_eq!(parsed.find(&first, Revision(999)), None);
        assert!(parsed.find(&second, Revision(1000)).is_some());
    }
}
