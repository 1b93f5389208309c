//! What is applied, and when applying it again would change nothing.
//!
//! An intent is compared with nothing that the server may have rewritten: not with defaults it filled in, not with how
//! it spells quantities. What is remembered of an apply is (1) a fingerprint of the intent and (2) a fingerprint of
//! what the object had, right after the apply, in the fields that the intent sets. While both are the same, applying
//! would change nothing. An intent that sets other fields than before is another intent, so fields that are no longer
//! set are removed by the next apply. Lists are taken as a whole: who changes one of ours in any way causes one apply,
//! which the server answers without a new revision if the change was none of our business.

use std::{
    borrow::Cow,
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use hashbrown::HashMap;
use kube::core::ApiResource;
use serde_json::{Map, Value};

use crate::key::ObjectKey;

/// What an operator wants an object, or its status, to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Intent {
    pub(super) value: Value,
    pub(super) fingerprint: u64,
}

/// What an apply is meant for. Anything else is a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precondition<'a> {
    /// Whatever has the name.
    Nothing,
    /// The object in this very state.
    Version(&'a str),
    /// The object with this uid, in whichever state.
    Uid(&'a str),
    /// None: the object is to be created. All that servers offer is that nobody's fields are changed if there is one.
    Absent,
}

impl Intent {
    /// The intent of an object: without what only the server decides, and without its status.
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

    /// The intent of a status.
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
        // Fingerprinted before these two, which some cached objects have and others do not.
        let fingerprint = fingerprint(&value);
        value["apiVersion"] = resource.api_version.clone().into();
        value["kind"] = resource.kind.clone().into();
        Self { value, fingerprint }
    }

    /// What is sent: with what makes the server refuse it if the object is another.
    pub(super) fn guarded(&self, guard: Precondition<'_>) -> Cow<'_, Value> {
        let mut value = Cow::Borrowed(&self.value);
        match guard {
            Precondition::Nothing | Precondition::Absent => {}
            Precondition::Version(version) => value.to_mut()["metadata"]["resourceVersion"] = version.into(),
            Precondition::Uid(uid) => value.to_mut()["metadata"]["uid"] = uid.into(),
        }
        value
    }

    /// The fingerprint of what `live` has in the fields that are set here.
    pub(super) fn shown_in(&self, live: &Value) -> u64 {
        let (Value::Object(intent), Value::Object(live)) = (&self.value, live) else { return 0 };
        let fields = intent.iter().filter(|(field, _)| !matches!(field.as_str(), "apiVersion" | "kind"));
        within(fields, live)
    }
}

/// A null says that a field is not set.
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

/// A number for a value, that does not depend on the order of fields.
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
    // Not the number of something absent, even if there are no fields.
    entry("", fields.fold(0, u64::wrapping_add))
}

fn entry(field: &str, value: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (field, value).hash(&mut hasher);
    hasher.finish()
}

/// Which half of an object an intent is about. They are written, and remembered, apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ApplyTarget {
    Object,
    Status,
}

/// An apply that was acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) intent: u64,
    pub(super) uid: String,
    /// The revision at which the object was last seen with everything in place.
    pub(super) revision: u64,
    /// What the object had in the fields of the intent; none if that cannot be seen in the cache.
    pub(super) shown: Option<u64>,
}

/// The last apply of each object of a kind.
#[derive(Debug, Default)]
pub(super) struct LastApplied {
    applied: HashMap<(ObjectKey, ApplyTarget), Applied>,
}

impl LastApplied {
    /// Whether an object still is as the last apply of the same intent left it. `shown` is asked only if the object has
    /// another revision.
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
        // An older state than the answer's is one that the watch has not caught up with.
        if revision <= applied.revision {
            return true;
        }
        let unchanged = applied.shown.is_some() && applied.shown == shown();
        if unchanged {
            applied.revision = revision;
        }
        unchanged
    }

    pub(super) fn remember(&mut self, key: &ObjectKey, half: ApplyTarget, applied: Applied) {
        self.applied.insert((key.clone(), half), applied);
    }

    /// The object is gone.
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
