//! The change of an object at the end of a stage.

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::{
    Stages,
    spec::{EventKind, Subject},
    template,
};
use crate::{
    conditions,
    containers::{self, Change, State, Which},
    resize,
};

/// Inputs besides the object.
pub(crate) struct Environment<'a> {
    /// The time, in whole seconds.
    pub(crate) now: Timestamp,
    /// Returns the address of the pod, assigning one on the first call.
    pub(crate) pod_address: &'a (dyn Fn() -> String + Sync),
    /// Returns the address of its node.
    pub(crate) host_address: &'a (dyn Fn() -> String + Sync),
}

impl Environment<'_> {
    pub(super) fn value(&self, name: &str, object: &Value) -> Option<Value> {
        match name {
            "now" => Some(self.now.to_string().into()),
            "podIP" => Some((self.pod_address)().into()),
            "hostIP" => Some((self.host_address)().into()),
            "nodeName" => Some(object["spec"]["nodeName"].clone()).filter(|name| !name.is_null()),
            _ => None,
        }
    }
}

/// The resulting writes for an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transition {
    /// Its new status, if it changes.
    pub(crate) status: Option<Value>,
    /// Its new finalizers, if they change.
    pub(crate) finalizers: Option<Vec<String>>,
    /// Whether it is deleted.
    pub(crate) delete: bool,
    /// The event to record.
    pub(crate) event: Option<EventText>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventText {
    /// Whether its type is `Warning`.
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Returns the transition at the end of a stage for an object, which is passed with its facts.
pub(crate) fn transition(stages: &Stages, number: usize, object: &Value, environment: &Environment<'_>) -> Transition {
    let stage = &stages.stages[number];
    let next = &stage.next;
    let fill = |template: &Value| template::fill(template, object, environment);
    let changes_status = next.status.is_some() || !next.conditions.is_empty() || !next.containers.is_empty();
    let status = (changes_status || !next.delete && next.finalizers.is_none()).then(|| {
        let conditions: Vec<Value> = next.conditions.iter().map(fill).collect();
        let merged = next.status.as_ref().map(fill);
        match stage.subject {
            Subject::Pod => {
                let changes = next.containers.iter().map(fill);
                let changes: Vec<Change> = changes.filter_map(|change| Change::deserialize(change).ok()).collect();
                pod_status(object, &changes, merged.as_ref(), &conditions, environment.now)
            }
            Subject::Node => {
                let mut status = object["status"].clone();
                merge(&mut status, merged.as_ref().unwrap_or(&Value::Null));
                conditions::set(&mut status, &conditions, None, environment.now);
                status
            }
        }
    });
    let finalizers = next.finalizers.as_ref().map(|change| {
        let present = containers::items(&object["metadata"], "finalizers").iter().filter_map(Value::as_str);
        let removed = |name: &&str| !change.empty && !change.remove.iter().any(|item| item.value == *name);
        let mut names: Vec<String> = present.filter(removed).map(str::to_owned).collect();
        for item in &change.add {
            if !names.contains(&item.value) {
                names.push(item.value.clone());
            }
        }
        names
    });
    let event = next.event.as_ref().map(|event| EventText {
        warning: event.kind == EventKind::Warning,
        reason: event.reason.clone(),
        message: super::selector::text(&fill(&event.message.as_str().into())),
    });
    Transition { status, finalizers, delete: next.delete, event }
}

/// The status of a pod after changes to its containers. Phase and conditions are derived from them, unless given.
fn pod_status(pod: &Value, changes: &[Change], merged: Option<&Value>, given: &[Value], now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    if status["startTime"].is_null() {
        status["startTime"] = now.to_string().into();
    }
    containers::complete(pod, &mut status);
    for change in changes {
        containers::apply(pod, &mut status, change, now);
    }
    let given_phase = merged.is_some_and(|merged| merged.get("phase").is_some());
    if let Some(merged) = merged {
        merge(&mut status, merged);
    }
    if !given_phase {
        status["phase"] = conditions::phase(pod, &status).into();
    }
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        // Nothing runs in a pod that has ended.
        let end = Change { exit_code: Some(0), ..Change::new(Which::Running, State::Terminated) };
        containers::apply(pod, &mut status, &end, now);
    }
    resize::report(pod, &mut status);
    let generation = pod["metadata"].get("generation").cloned();
    if let Some(generation) = &generation {
        status["observedGeneration"] = generation.clone();
    }
    let derived = conditions::of_pod(pod, &status);
    conditions::set(&mut status, &derived, generation.as_ref(), now);
    conditions::set(&mut status, given, generation.as_ref(), now);
    status
}

/// Applies a JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (field, value) in patch {
        match value {
            Value::Null => drop(target.remove(field)),
            Value::Object(_) => merge(target.entry(field.as_str()).or_insert(Value::Null), value),
            value => drop(target.insert(field.clone(), value.clone())),
        }
    }
}
