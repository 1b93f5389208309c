//! The behaviour of a kind that its schema cannot express: defaulting, validation, immutability.
//!
//! A strategy is a small stateless value. Every method has a default that suits a kind without special behaviour, so
//! most kinds override only a few. Constant properties of a kind, such as the rule for names, are not methods but
//! [facts](crate::facts).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};
use windlass_schema::field::ErrorList;

/// The writer and the time of a write, which a strategy may record in the object.
#[derive(Debug, Clone, Copy)]
pub struct WriteContext<'a> {
    /// Name of the requesting user.
    pub user_name: &'a str,
    /// Unique ID of the requesting user; empty if the authenticator does not know it.
    pub user_uid: &'a str,
    /// Groups of the requesting user.
    pub groups: &'a [String],
    /// Further attributes of the requesting user.
    pub extra: &'a BTreeMap<String, Vec<String>>,
    /// Time of the write.
    pub now: Timestamp,
}

impl WriteContext<'_> {
    /// The time of the write as `metav1.Time` is written: RFC 3339, in whole seconds.
    pub fn time(&self) -> String {
        self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

#[cfg(test)]
impl WriteContext<'static> {
    /// A write by `alice` on 2026-01-01.
    pub(crate) fn test() -> Self {
        static EXTRA: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let now = Timestamp::from_second(1_767_225_600).expect("the time must be in range");
        Self { user_name: "alice", user_uid: "", groups: &[], extra: &EXTRA, now }
    }
}

/// Effect of a graceful deletion on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// The kind has no grace period: the object is deleted at once.
    None,
    /// The object is marked as terminating and its owner has this many seconds to finish; 0 deletes it at once.
    Seconds(i64),
}

/// The behaviour of a kind beyond its schema. Objects are JSON values that conform to the kind's schema.
pub trait Strategy: Send + Sync + 'static {
    /// Applies the defaults of the API's Go defaulting functions. Runs on every decoded body and after every patch;
    /// must be idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Returns the labels that defaulting copies from the pod template to a new object without labels. They belong to
    /// the writer, and labels that [`prepare_for_create`](Self::prepare_for_create) adds to the other
    /// part become labels of the object too. The caller sets them for managed fields and mutating admission, and
    /// removes them before `prepare_for_create`, unless a webhook or policy has changed the object meanwhile.
    fn shared_labels(&self, _object: &Value) -> Option<Map<String, Value>> {
        None
    }

    /// Sets and resets the fields that a client may not choose on create (status, generated fields).
    fn prepare_for_create(&self, _object: &mut Value, _context: &WriteContext<'_>) {}

    /// Validates a new object except for its metadata, whose rules are generic.
    fn validate(&self, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Copies from `old` the fields that an ordinary update may not change (status).
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value, _context: &WriteContext<'_>) {}

    /// Validates a changed object against the old one, except for its metadata.
    fn validate_update(&self, object: &Value, _old: &Value) -> ErrorList {
        self.validate(object)
    }

    /// Copies from `old` the fields that an update of the subresource may not change. For `status`, the caller has
    /// already restored the old `spec` and metadata as far as the generic rules go.
    fn prepare_for_subresource_update(
        &self,
        _subresource: &str,
        _object: &mut Value,
        _old: &Value,
        _context: &WriteContext<'_>,
    ) {
    }

    /// Validates an update of a subresource.
    fn validate_subresource_update(&self, _subresource: &str, _object: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Returns warnings for the client about an accepted create or update.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Returns the grace period of a deletion; `requested` is the client's `gracePeriodSeconds`.
    fn grace(&self, _object: &Value, _requested: Option<i64>) -> Grace {
        Grace::None
    }

    /// Returns the field selectors beyond `metadata.name` and `metadata.namespace`, as `(field, value in this
    /// object)`. Must name the same fields for every object.
    fn selectable_fields(&self, _object: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The strategy of a kind without special behaviour.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Strategy for Plain {}
