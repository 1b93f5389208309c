//! Conditions of an object's status, one per type, such as `Ready` or `Available`.
//!
//! A reconcile sets the conditions that it observes. [`Context::set_status`](crate::context::Context::set_status) keeps
//! the last transition time of a condition unless its status changes.
//!
//! ```
//! use windlass_runtime::objects::conditions::{Condition, Conditions, ready};
//!
//! let mut conditions: Vec<Condition> = Vec::new();
//! conditions.set_condition(ready(false).reason("Starting").message("0 of 3 replicas are ready"));
//! assert!(!conditions.is_true("Ready"));
//! conditions.set_condition(ready(true).reason("AllReady"));
//! assert!(conditions.is_true("Ready"));
//! ```
//!
//! A status struct gets these methods with `#[derive(Conditions)]` of `windlass-macros`, or by implementing two
//! methods.

use std::borrow::Cow;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use schemars::{Schema, SchemaGenerator, json_schema};

use super::AsObject;
use crate::object::Object;

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// The status cannot be determined.
    Unknown,
}

impl ConditionStatus {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// `None` is unknown.
impl From<Option<bool>> for ConditionStatus {
    fn from(holds: Option<bool>) -> Self {
        holds.map_or(Self::Unknown, Self::from)
    }
}

/// A condition to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    type_: Cow<'static, str>,
    status: ConditionStatus,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
}

/// Creates a condition of any type: `condition("Degraded", false)`, or `None` for unknown.
pub fn condition(type_: impl Into<Cow<'static, str>>, status: impl Into<ConditionStatus>) -> ConditionUpdate {
    let status = status.into();
    // The API requires a reason; this is the default.
    let reason = match status {
        ConditionStatus::True => "AsExpected",
        ConditionStatus::False => "NotYet",
        ConditionStatus::Unknown => "Unknown",
    };
    ConditionUpdate {
        type_: type_.into(),
        status,
        reason: reason.into(),
        message: String::new(),
        observed_generation: None,
    }
}

/// Creates the condition `Ready`.
pub fn ready(status: impl Into<ConditionStatus>) -> ConditionUpdate {
    condition("Ready", status)
}

impl ConditionUpdate {
    /// Sets the reason in one word for machines: `MinimumReplicasAvailable`.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Sets the message, a sentence for human readers.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the observed generation to that of this object.
    #[must_use]
    pub fn observed<K: Object>(mut self, object: &impl AsObject<K>) -> Self {
        self.observed_generation = object.object().meta().generation;
        self
    }

    fn at(self, now: Timestamp) -> Condition {
        Condition {
            type_: self.type_.into_owned(),
            status: self.status.as_str().to_owned(),
            reason: self.reason,
            message: self.message,
            observed_generation: self.observed_generation,
            last_transition_time: Time(now),
        }
    }
}

/// The last transition is now.
impl From<ConditionUpdate> for Condition {
    fn from(statement: ConditionUpdate) -> Self {
        statement.at(windlass_clock::now_in_seconds())
    }
}

/// A status with conditions.
pub trait Conditions {
    /// Returns the conditions.
    fn conditions(&self) -> &Vec<Condition>;

    /// Returns the conditions for modification.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    /// Returns the field with the observed generation, if there is one.
    fn observed_generation_mut(&mut self) -> Option<&mut Option<i64>> {
        None
    }

    /// Sets a condition. The last transition time is kept unless the status changes; without a generation, the
    /// condition gets that of the status, if it has one. Conditions are sorted by type. Returns whether anything has
    /// changed.
    fn set_condition(&mut self, statement: ConditionUpdate) -> bool
    where
        Self: Sized,
    {
        let mut condition = Condition::from(statement);
        if condition.observed_generation.is_none() {
            condition.observed_generation = self.observed_generation_mut().and_then(|generation| *generation);
        }
        put(self.conditions_mut(), condition)
    }

    /// Removes a condition. Returns whether it existed.
    fn remove_condition(&mut self, type_: &str) -> bool {
        let conditions = self.conditions_mut();
        let before = conditions.len();
        conditions.retain(|condition| condition.type_ != type_);
        conditions.len() < before
    }

    /// Returns the condition of a type.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions().iter().find(|condition| condition.type_ == type_)
    }

    /// Returns whether a condition exists and is true.
    fn is_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == "True")
    }

    /// Returns whether a condition exists and is false.
    fn is_false(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == "False")
    }

    /// Sets the observed generation of the status to that of the object, if it has a field for it.
    fn observe<K: Object>(&mut self, object: &impl AsObject<K>)
    where
        Self: Sized,
    {
        if let Some(observed) = self.observed_generation_mut() {
            *observed = object.object().meta().generation;
        }
    }
}

impl Conditions for Vec<Condition> {
    fn conditions(&self) -> &Vec<Condition> {
        self
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        self
    }
}

fn put(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    match conditions.iter_mut().find(|old| old.type_ == condition.type_) {
        Some(old) => {
            if old.status == condition.status {
                condition.last_transition_time = old.last_transition_time.clone();
            }
            let changed = *old != condition;
            *old = condition;
            changed
        }
        None => {
            let place = conditions.partition_point(|old| old.type_ < condition.type_);
            conditions.insert(place, condition);
            true
        }
    }
}

/// Schema of a field `conditions: Vec<Condition>`, for a status that derives `JsonSchema`: the same as for built-in
/// kinds, with the list as a map by type, so that several controllers can apply their own conditions.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
///
/// #[derive(schemars::JsonSchema)]
/// struct FooStatus {
///     #[schemars(schema_with = "windlass_runtime::objects::conditions::schema")]
///     conditions: Vec<Condition>,
/// }
/// ```
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": { "type": "string", "maxLength": 316 }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64, statement: ConditionUpdate) -> Condition {
        statement.at(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn a_transition_is_a_change_of_status() {
        let mut conditions = vec![at(1, ready(false).reason("Starting"))];
        let table = [
            ("another reason", at(2, ready(false).reason("Pulling")), true, 1),
            ("nothing", at(3, ready(false).reason("Pulling")), false, 1),
            ("another message", at(4, ready(false).reason("Pulling").message("nginx")), true, 1),
            ("another status", at(5, ready(true)), true, 5),
            ("unknown", at(6, ready(None)), true, 6),
        ];
        for (what, condition, changed, transition) in table {
            assert_eq!(put(&mut conditions, condition), changed, "{what}");
            assert_eq!(conditions.len(), 1, "{what}");
            assert_eq!(conditions[0].last_transition_time.0.as_second(), transition, "{what}");
        }
        assert_eq!(conditions[0].status, "Unknown");
    }

    #[test]
    fn conditions_are_in_the_order_of_their_types_however_they_are_set() {
        let mut conditions = Vec::new();
        for type_ in ["Ready", "Available", "Progressing"] {
            conditions.set_condition(condition(type_, true));
        }
        let types: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ["Available", "Progressing", "Ready"]);
        assert!(conditions.remove_condition("Available") && !conditions.remove_condition("Available"));
        assert!(conditions.condition("Available").is_none() && conditions.is_true("Ready"));
        assert!(!conditions.is_false("Ready") && !conditions.is_false("Available"));
    }

    #[test]
    fn a_condition_is_about_the_generation_of_its_status() {
        struct Status {
            conditions: Vec<Condition>,
            observed_generation: Option<i64>,
        }
        impl Conditions for Status {
            fn conditions(&self) -> &Vec<Condition> {
                &self.conditions
            }
            fn conditions_mut(&mut self) -> &mut Vec<Condition> {
                &mut self.conditions
            }
            fn observed_generation_mut(&mut self) -> Option<&mut Option<i64>> {
                Some(&mut self.observed_generation)
            }
        }
        let mut object = k8s_openapi::api::core::v1::ConfigMap::default();
        object.metadata.generation = Some(3);
        let mut status = Status { conditions: Vec::new(), observed_generation: None };
        status.observe(&object);
        status.set_condition(ready(true));
        object.metadata.generation = Some(4);
        status.set_condition(condition("Available", true).observed(&std::sync::Arc::new(object)));
        let generations: Vec<_> = status.conditions.iter().map(|it| it.observed_generation).collect();
        assert_eq!((generations, status.observed_generation), (vec![Some(4), Some(3)], Some(3)));
    }
}
