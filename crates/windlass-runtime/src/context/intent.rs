//! Applied configurations, and whether applying them again would change anything.
//!
//! An intent is never compared with anything that the API server may rewrite, such as defaults or the spelling of
//! quantities. For each apply, two fingerprints are recorded: (1) of the intent, and (2) of the same fields in the
//! object right after the apply. While both are the same, applying again would change nothing. An intent with other
//! fields is another intent, so the next apply removes fields that are no longer set. Lists are compared as a whole:
//! any change to a list of ours causes one apply, which does not change the revision if the change did not concern our
//! items.

use std::{
    borrow::Cow,
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use hashbrown::HashMap;
use kube::core::ApiResource;
use serde_json::{Map, Value};

use crate::key::ObjectKey;

/// Desired configuration of an object, or of its status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Intent {
    pub(super) value: Value,
    pub(super) fingerprint: u64,
}

/// Precondition of an apply. If it does not hold, the result is a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precondition<'a> {
    /// No precondition.
    Nothing,
    /// The object has this resource version.
    Version(&'a str),
    /// The object has this UID, in any state.
    Uid(&'a str),
    /// The object does not exist. The best that the API server offers is not to change the fields of others if it does.
    Absent,
}

impl Intent {
    /// Returns the intent for an object, without fields that only the API server sets, and without its status.
    pub(super) fn object(resource: &ApiResource, value: Value) -> Self {
        let Value::Object(mut object) = value else { return Self::new(resource, Map::new()) };
        object.remove("status");
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.retain(|field, _| {
                matches!(
                    field.as_str(),
                    "name" | "namespace" | "labels" | "annotations" | "ownerReferences" | "finalizers"
                )
            });
        }
        Self::new(resource, object)
    }

    /// Returns the intent for a status.
    pub(super) fn status(resource: &ApiResource, key: &ObjectKey, status: Value) -> Self {
        let mut metadata = Map::new();
        metadata.insert("name".into(), key.name().into());
        if let Some(namespace) = key.namespace() {
            metadata.insert("namespace".into(), namespace.into());
        }
        let mut object = Map::new();
        object.insert("metadata".into(), metadata.into());
        object.insert("status".into(), status);
        Self::new(resource, object)
    }

    fn new(resource: &ApiResource, object: Map<String, Value>) -> Self {
        let mut value = Value::Object(object);
        without_nulls(&mut value);
        // Fingerprinted without these two fields, which not all cached objects have.
        let fingerprint = fingerprint(&value);
        value["apiVersion"] = resource.api_version.clone().into();
        value["kind"] = resource.kind.clone().into();
        Self { value, fingerprint }
    }

    /// Returns the request body, with the fields that make the API server check the precondition.
    pub(super) fn guarded(&self, guard: Precondition<'_>) -> Cow<'_, Value> {
        let mut value = Cow::Borrowed(&self.value);
        match guard {
            Precondition::Nothing | Precondition::Absent => {}
            Precondition::Version(version) => value.to_mut()["metadata"]["resourceVersion"] = version.into(),
            Precondition::Uid(uid) => value.to_mut()["metadata"]["uid"] = uid.into(),
        }
        value
    }

    /// Returns the fingerprint of this intent's fields in `live`.
    pub(super) fn shown_in(&self, live: &Value) -> u64 {
        let (Value::Object(intent), Value::Object(live)) = (&self.value, live) else { return 0 };
        let fields = intent.iter().filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind"));
        within(fields, live)
    }
}

/// Removes nulls: a null field is an unset field.
pub(super) fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Returns a fingerprint of a value that does not depend on the order of fields.
fn fingerprint(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => 0u8.hash(&mut hasher),
        Value::Bool(value) => (1u8, value).hash(&mut hasher),
        Value::Number(value) => (2u8, value.to_string()).hash(&mut hasher),
        Value::String(value) => (3u8, value).hash(&mut hasher),
        Value::Array(items) => {
            (4u8, items.len()).hash(&mut hasher);
            items.iter().for_each(|item| fingerprint(item).hash(&mut hasher));
        }
        Value::Object(object) => {
            let fields = object.iter().map(|(field, value)| entry(field, fingerprint(value)));
            (5u8, fields.fold(0, u64::wrapping_add)).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn fingerprint_within(intent: &Value, live: Option<&Value>) -> u64 {
    match (intent, live) {
        (Value::Object(intent), Some(Value::Object(live))) => within(intent.iter(), live),
        (_, Some(live)) => fingerprint(live),
        (_, None) => 0,
    }
}

fn within<'a>(intent: impl Iterator<Item = (&'a String, &'a Value)>, live: &Map<String, Value>) -> u64 {
    let fields = intent.map(|(field, value)| entry(field, fingerprint_within(value, live.get(field))));
    // Different from the fingerprint of an absent value, even without fields.
    entry("", fields.fold(0, u64::wrapping_add))
}

fn entry(field: &str, value: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (field, value).hash(&mut hasher);
    hasher.finish()
}

/// The part of an object that an intent applies to. Both parts are written and recorded separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ApplyTarget {
    Object,
    Status,
}

/// A successful apply.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) intent: u64,
    pub(super) uid: String,
    /// Revision at which the object was last seen with everything in place.
    pub(super) revision: u64,
    /// Fingerprint of the intent's fields in the object; `None` if the cache does not hold them.
    pub(super) shown: Option<u64>,
}

/// The last apply of each object of a kind.
#[derive(Debug, Default)]
pub(super) struct LastApplied {
    applied: HashMap<(ObjectKey, ApplyTarget), Applied>,
}

impl LastApplied {
    /// Returns whether an object is still as the last apply of the same intent left it. Calls `shown` only if the
    /// object has another revision.
    pub(super) fn in_place(
        &mut self,
        key: &ObjectKey,
        half: ApplyTarget,
        intent: &Intent,
        uid: &str,
        revision: u64,
        shown: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let Some(applied) = self.applied.get_mut(&(key.clone(), half)) else { return false };
        if applied.intent != intent.fingerprint || applied.uid != uid {
            return false;
        }
        // A state older than the response: the watch has not caught up.
        if revision <= applied.revision {
            return true;
        }
        let unchanged = applied.shown.is_some() && applied.shown == shown();
        if unchanged {
            applied.revision = revision;
        }
        unchanged
    }

    /// Returns whether an apply of the object is recorded.
    pub(super) fn contains(&self, key: &ObjectKey, half: ApplyTarget) -> bool {
        self.applied.contains_key(&(key.clone(), half))
    }

    pub(super) fn remember(&mut self, key: &ObjectKey, half: ApplyTarget, applied: Applied) {
        self.applied.insert((key.clone(), half), applied);
    }

    /// Removes a deleted object.
    pub(super) fn forget(&mut self, key: &ObjectKey, uid: &str) {
        for half in [ApplyTarget::Object, ApplyTarget::Status] {
            let entry = (key.clone(), half);
            if self.applied.get(&entry).is_some_and(|applied| applied.uid == uid) {
                self.applied.remove(&entry);
            }
        }
    }
}

#[cfg(test)]
mod tests;
