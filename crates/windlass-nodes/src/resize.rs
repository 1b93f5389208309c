//! Resources of the containers of a simulated pod, and how a resize takes effect. Pure.
//!
//! As with a kubelet, a resize is first allocated (`allocatedResources`, condition `PodResizeInProgress`), or deferred
//! while the node has no room for it (condition `PodResizePending`), and then actuated (`resources`).

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_builtins::kinds::pod::{pod_limits, pod_requests};
use windlass_schema::sorting::Gather as _;

use crate::{
    conditions,
    containers::{self, items},
    scheduler::Shortage,
    stages::EventText,
};

/// The condition of a resize that the node has no room for.
const PENDING: &str = "PodResizePending";
/// The condition of a resize that has been allocated.
const IN_PROGRESS: &str = "PodResizeInProgress";

/// A step of a resize.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResizeStep {
    /// The new status of the pod.
    pub(crate) status: Value,
    pub(crate) event: Option<EventText>,
}

/// Adds the resources of containers that have started and have none yet, and those of the pod.
pub(crate) fn report(pod: &Value, status: &mut Value) {
    for (list, statuses) in containers::LISTS {
        for entry in status[statuses].as_array_mut().into_iter().flatten() {
            let has_begun = entry["containerID"].as_str().is_some_and(|id| !id.is_empty());
            if has_begun && entry.get("resources").is_none() {
                let spec = items(&pod["spec"], list).iter().find(|spec| spec["name"] == entry["name"]);
                allocate(entry, spec.unwrap_or(&Value::Null));
                actuate(entry, spec.unwrap_or(&Value::Null));
            }
        }
    }
    if status.get("resources").is_none() {
        set_or_remove(status, "allocatedResources", pod_requests(&pod["spec"]));
        status["resources"] = whole(pod);
    }
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        remove_conditions(status, &[PENDING, IN_PROGRESS]);
    }
}

/// Returns whether a resize of a pod waits until its node has room for it.
pub(crate) fn is_deferred(pod: &Value) -> bool {
    condition(&pod["status"], PENDING).is_some()
}

/// Returns the next step of a resize; `None` if there is none, or if it still has to wait. The pod is passed with its
/// facts; `shortage` returns what the node lacks for it.
pub(crate) fn next_step(
    pod: &Value,
    shortage: impl FnOnce() -> Option<Shortage>,
    now: Timestamp,
) -> Option<ResizeStep> {
    let status = &pod["status"];
    if status["phase"] != "Running" || !pod["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let (pending, in_progress) = (condition(status, PENDING), condition(status, IN_PROGRESS));
    let mut status = status.clone();
    if !differs(pod, "resources", resources_of, whole) {
        if pending.is_none() && in_progress.is_none() {
            return None;
        }
        remove_conditions(&mut status, &[PENDING, IN_PROGRESS]);
        let event = in_progress.map(|condition| event(pod, false, "ResizeCompleted", "completed", condition, None));
        return Some(ResizeStep { status, event });
    }
    let is_allocated = !differs(pod, "allocatedResources", requests_of, |pod| pod_requests(&pod["spec"]));
    if let Some(condition) = in_progress.filter(|_| is_allocated) {
        for_each_container(pod, &mut status, |entry, spec| {
            let restarts = is_running(entry) && restarts(spec, &entry["resources"]);
            actuate(entry, spec);
            if restarts {
                containers::restart(pod, entry, spec, pod["facts"]["readyAtOnce"] == true, now);
            }
        });
        status["resources"] = whole(pod);
        remove_conditions(&mut status, &[IN_PROGRESS]);
        let derived = conditions::of_pod(pod, &status);
        conditions::set(&mut status, &derived, pod["metadata"].get("generation"), now);
        let event = Some(event(pod, false, "ResizeCompleted", "completed", condition, None));
        return Some(ResizeStep { status, event });
    }
    let generation = pod["metadata"].get("generation");
    if let Some(shortage) = shortage() {
        let is_known = pending.is_some_and(|pending| {
            pending["message"] == *shortage.message && pending.get("observedGeneration") == generation
        });
        if is_known {
            return None;
        }
        let condition = json!({"type": PENDING, "status": "True", "reason": "Deferred", "message": shortage.message});
        conditions::set(&mut status, std::slice::from_ref(&condition), generation, now);
        let told = pending.is_none_or(|pending| pending.get("observedGeneration") != generation);
        let condition = self::condition(&status, PENDING).unwrap_or(&condition);
        let event = event(pod, true, "ResizeDeferred", &shortage.reason, condition, Some(&shortage.message));
        return Some(ResizeStep { event: told.then_some(event), status });
    }
    for_each_container(pod, &mut status, allocate);
    set_or_remove(&mut status, "allocatedResources", pod_requests(&pod["spec"]));
    remove_conditions(&mut status, &[PENDING, IN_PROGRESS]);
    let condition = json!({"type": IN_PROGRESS, "status": "True"});
    conditions::set(&mut status, std::slice::from_ref(&condition), generation, now);
    let condition = self::condition(&status, IN_PROGRESS).unwrap_or(&condition);
    let event = event(pod, false, "ResizeStarted", "started", condition, None);
    Some(ResizeStep { event: Some(event), status })
}

/// Returns whether a field of the status of the pod or one of its containers has another value than its spec demands.
fn differs(pod: &Value, field: &str, of: fn(&Value) -> Value, of_pod: fn(&Value) -> Value) -> bool {
    let present = |value: &Value| value.get(field).cloned().unwrap_or_else(|| json!({}));
    let entries = containers::LISTS.into_iter().flat_map(|(list, statuses)| {
        let specs = items(&pod["spec"], list);
        let entries = items(&pod["status"], statuses).iter().filter(|entry| entry.get("resources").is_some());
        entries.filter_map(|entry| Some((entry, specs.iter().find(|spec| spec["name"] == entry["name"])?)))
    });
    let mut entries = entries.map(|(entry, spec)| present(entry) != of(spec));
    let has_own = !pod["spec"]["resources"].is_null() && pod["status"].get("resources").is_some();
    entries.any(|differs| differs) || has_own && present(&pod["status"]) != of_pod(pod)
}

/// Calls a function for the status and the spec of each container that has started.
fn for_each_container(pod: &Value, status: &mut Value, mut change: impl FnMut(&mut Value, &Value)) {
    for (list, statuses) in containers::LISTS {
        let specs = items(&pod["spec"], list);
        for entry in status[statuses].as_array_mut().into_iter().flatten() {
            let spec = specs.iter().find(|spec| spec["name"] == entry["name"]);
            if let Some(spec) = spec.filter(|_| entry.get("resources").is_some()) {
                change(entry, spec);
            }
        }
    }
}

fn allocate(entry: &mut Value, spec: &Value) {
    set_or_remove(entry, "allocatedResources", requests_of(spec));
    // Only running containers have to be changed.
    if !is_running(entry) {
        actuate(entry, spec);
    }
}

fn actuate(entry: &mut Value, spec: &Value) {
    entry["resources"] = resources_of(spec);
}

fn is_running(entry: &Value) -> bool {
    entry["state"].get("running").is_some()
}

/// Returns whether a container has to be restarted for the resources of its spec.
fn restarts(spec: &Value, present: &Value) -> bool {
    let policies = items(spec, "resizePolicy").iter().filter(|policy| policy["restartPolicy"] == "RestartContainer");
    let changed = |name: &str| {
        ["requests", "limits"].iter().any(|kind| spec["resources"][kind].get(name) != present[kind].get(name))
    };
    policies.filter_map(|policy| policy["resourceName"].as_str()).any(changed)
}

/// The resources in the spec of a container.
fn resources_of(spec: &Value) -> Value {
    let fields = ["claims", "limits", "requests"].into_iter().filter_map(|field| {
        let value = spec["resources"].get(field)?;
        Some((field.to_owned(), value.clone()))
    });
    fields.gather::<Map<_, _>>().into()
}

fn requests_of(spec: &Value) -> Value {
    spec["resources"].get("requests").cloned().unwrap_or_else(|| json!({}))
}

/// The resources of a whole pod.
fn whole(pod: &Value) -> Value {
    let mut requests = pod_requests(&pod["spec"]);
    if let Some(requests) = requests.as_object_mut() {
        requests.retain(|name, _| name == "cpu" || name == "memory");
    }
    let mut all = json!({});
    set_or_remove(&mut all, "limits", pod_limits(&pod["spec"]));
    set_or_remove(&mut all, "requests", requests);
    all
}

fn set_or_remove(object: &mut Value, field: &str, value: Value) {
    let Some(fields) = object.as_object_mut() else { return };
    if value.as_object().is_none_or(Map::is_empty) {
        fields.remove(field);
    } else {
        fields.insert(field.to_owned(), value);
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    items(status, "conditions").iter().find(|condition| condition["type"] == kind)
}

fn remove_conditions(status: &mut Value, kinds: &[&str]) {
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| !kinds.iter().any(|kind| condition["type"] == *kind));
    }
}

/// Returns an event with the resources of a pod.
fn event(pod: &Value, warning: bool, reason: &str, what: &str, condition: &Value, error: Option<&str>) -> EventText {
    let summary = |list: &str| {
        let all = items(&pod["spec"], list).iter();
        let all: Vec<String> =
            all.map(|spec| format!(r#"{{"name":{},"resources":{}}}"#, spec["name"], resources_of(spec))).collect();
        (!all.is_empty()).then(|| format!(r#""{list}":[{}]"#, all.join(",")))
    };
    let generation = condition.get("observedGeneration").map(|generation| format!(r#""generation":{generation}"#));
    let error = error.map(|error| format!(r#""error":{}"#, Value::from(error)));
    let fields = [summary("initContainers"), summary("containers"), generation, error];
    let fields: Vec<String> = fields.into_iter().flatten().collect();
    let message = format!("Pod resize {what}: {{{}}}", fields.join(","));
    EventText { warning, reason: reason.to_owned(), message }
}

#[cfg(test)]
mod tests;
