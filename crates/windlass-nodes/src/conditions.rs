//! The phase and conditions of a pod, derived from its containers as a kubelet does. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::containers::{has_succeeded, is_sidecar, items, restarts};

/// The phase of a pod with this status. `Succeeded` and `Failed` are final.
pub(super) fn phase(pod: &Value, status: &Value) -> &'static str {
    match status["phase"].as_str() {
        Some("Succeeded") => return "Succeeded",
        Some("Failed") => return "Failed",
        _ => {}
    }
    let spec = &pod["spec"];
    for (container, entry) in pairs(spec, status, "initContainers", "initContainerStatuses") {
        let ended = entry["state"].get("terminated").is_some();
        if is_sidecar(container) || has_succeeded(entry) {
            continue;
        }
        return if ended && !restarts(pod, container, "initContainers", entry) { "Failed" } else { "Pending" };
    }
    let (mut begun, mut ended, mut failed, mut again) = (0, 0, 0, false);
    let all = items(spec, "containers").len();
    for (container, entry) in pairs(spec, status, "containers", "containerStatuses") {
        let state = &entry["state"];
        let last = state.get("terminated").or_else(|| entry["lastState"].get("terminated"));
        if state.get("running").is_some() || last.is_some() {
            begun += 1;
        }
        if let Some(last) = last.filter(|_| state.get("running").is_none()) {
            ended += 1;
            failed += i32::from(last["exitCode"] != 0);
        }
        again |= restarts(pod, container, "containers", entry);
    }
    match (begun < all, ended == all && !again, failed > 0) {
        (true, ..) => "Pending",
        (false, false, _) => "Running",
        (false, true, false) => "Succeeded",
        (false, true, true) => "Failed",
    }
}

/// The conditions that a kubelet sets for a pod with this status.
pub(super) fn of_pod(pod: &Value, status: &Value) -> Vec<Value> {
    let (spec, phase) = (&pod["spec"], status["phase"].as_str().unwrap_or_default());
    let names = |entries: &[&Value]| {
        let names: Vec<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
        names.join(" ")
    };
    let init: Vec<_> = pairs(spec, status, "initContainers", "initContainerStatuses").collect();
    let incomplete = |(container, entry): &&(&Value, &Value)| match is_sidecar(container) {
        true => entry["started"] != true,
        false => !has_succeeded(entry),
    };
    let incomplete: Vec<&Value> = init.iter().filter(incomplete).map(|(_, entry)| *entry).collect();
    let initialized = match (phase, incomplete.is_empty()) {
        ("Succeeded", _) => condition("Initialized", true, "PodCompleted", ""),
        (_, true) => condition("Initialized", true, "", ""),
        (_, false) => {
            let message = format!("containers with incomplete status: [{}]", names(&incomplete));
            condition("Initialized", false, "ContainersNotInitialized", &message)
        }
    };
    let sidecars = init.iter().filter(|(container, _)| is_sidecar(container)).map(|(_, entry)| *entry);
    let containers = pairs(spec, status, "containers", "containerStatuses").map(|(_, entry)| entry);
    let unready: Vec<&Value> = containers.chain(sidecars).filter(|entry| entry["ready"] != true).collect();
    let (ready, reason, message) = match phase {
        "Succeeded" => (false, "PodCompleted", String::new()),
        "Failed" => (false, "PodFailed", String::new()),
        _ if unready.is_empty() => (true, "", String::new()),
        _ => (false, "ContainersNotReady", format!("containers with unready status: [{}]", names(&unready))),
    };
    let containers_ready = condition("ContainersReady", ready, reason, &message);
    let closed = closed_gates(pod, status);
    let pod_ready = match ready && !closed.is_empty() {
        true => condition("Ready", false, "ReadinessGatesNotReady", &closed.join(", ")),
        false => condition("Ready", ready, reason, &message),
    };
    let has_network = status["podIP"].is_string() && !matches!(phase, "Succeeded" | "Failed");
    vec![condition("PodReadyToStartContainers", has_network, "", ""), initialized, pod_ready, containers_ready]
}

/// Messages for the readiness gates that are not met.
fn closed_gates(pod: &Value, status: &Value) -> Vec<String> {
    let conditions = items(status, "conditions");
    let gates = items(&pod["spec"], "readinessGates").iter().filter_map(|gate| gate["conditionType"].as_str());
    let closed = gates.filter_map(|gate| {
        let found = conditions.iter().find(|condition| condition["type"] == gate);
        match found.map(|condition| condition["status"].as_str().unwrap_or_default()) {
            None => Some(format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.")),
            Some("True") => None,
            Some(other) => Some(format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {other}")),
        }
    });
    closed.collect()
}

/// Sets conditions by type. A condition whose status does not change keeps its transition time.
pub(super) fn set(status: &mut Value, conditions: &[Value], generation: Option<&Value>, now: Timestamp) {
    if conditions.is_empty() {
        return;
    }
    let mut all = items(status, "conditions").to_vec();
    for condition in conditions {
        let place = all.iter().position(|present| present["type"] == condition["type"]);
        let since = place.map(|place| &all[place]).filter(|present| present["status"] == condition["status"]);
        let since = since.and_then(|present| present.get("lastTransitionTime")).cloned();
        let mut condition = condition.clone();
        condition["lastTransitionTime"] = since.unwrap_or_else(|| now.to_string().into());
        if let Some(generation) = generation {
            condition["observedGeneration"] = generation.clone();
        }
        match place {
            Some(place) => all[place] = condition,
            None => all.push(condition),
        }
    }
    status["conditions"] = all.into();
}

fn condition(kind: &str, holds: bool, reason: &str, message: &str) -> Value {
    let mut condition = json!({"type": kind, "status": if holds { "True" } else { "False" }});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[field] = text.into();
        }
    }
    condition
}

/// Pairs containers with their statuses.
fn pairs<'a>(
    spec: &'a Value,
    status: &'a Value,
    list: &str,
    statuses: &'a str,
) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    items(spec, list).iter().filter_map(move |container| {
        let entry = items(status, statuses).iter().find(|entry| entry["name"] == container["name"])?;
        Some((container, entry))
    })
}
