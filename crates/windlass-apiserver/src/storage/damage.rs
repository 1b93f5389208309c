//! Stored values that are not objects: written by an older version, or changed on the disk.
//!
//! A damaged value is never served. It is omitted from lists and watches, which name it in a warning; a GET reports it;
//! a DELETE removes it.

use std::collections::BTreeMap;

use tracing::error;
use windlass_json::MAX_DEPTH;
use windlass_store::Revision;

/// Reason why bytes are not an object as the server stores it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    /// The bytes are not text.
    #[error("it is not UTF-8")]
    NotText,
    /// The string is not an object with metadata.
    #[error("it is not an object with metadata: {0}")]
    NotAnObject(String),
    /// The object has another name than its key.
    #[error("it contains an object named {0:?}")]
    OtherName(String),
    /// The object nests too deep to be parsed.
    #[error("it nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The object is too long to be addressed.
    #[error("it is longer than 4 GiB")]
    TooLong,
}

/// A damaged value at a revision.
#[derive(Debug, Clone)]
pub(crate) struct DamagedObject {
    /// The revision of the write.
    pub(crate) revision: Revision,
    /// The reason.
    pub(crate) damage: Damage,
}

/// The damaged values of a resource, by `namespace/name` (or `name`).
#[derive(Debug, Default)]
pub(super) struct DamagedObjects(BTreeMap<Box<str>, DamagedObject>);

impl DamagedObjects {
    /// Records a value and reports it in the log.
    pub(super) fn insert(&mut self, prefix: &str, key: &str, revision: Revision, damage: Damage) {
        error!(key = format!("{prefix}{key}"), %revision, %damage, "a stored object is damaged and is not served");
        self.0.insert(key.into(), DamagedObject { revision, damage });
    }

    /// Adds the damaged values of another part of the resource.
    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn remove(&mut self, key: &str) {
        // Almost always empty, so this costs nothing per write.
        self.0.remove(key);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&DamagedObject> {
        self.0.get(key)
    }

    /// Returns the keys that begin with a prefix.
    pub(super) fn keys(&self, prefix: &str) -> Vec<String> {
        self.0.keys().filter(|key| key.starts_with(prefix)).map(|key| key.to_string()).collect()
    }
}
