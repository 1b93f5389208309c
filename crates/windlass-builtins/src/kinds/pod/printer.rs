//! The columns of pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns::{self, Column, column, wide};
use crate::kinds::pod::resources::is_sidecar;
use crate::object::{boolean, integer, is_set, items, text};

/// The columns of pods.
pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    column("Ready", "string", "The aggregate readiness state of this pod for accepting traffic."),
    column("Status", "string", "The aggregate status of the containers in this pod."),
    column(
        "Restarts",
        "string",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
    ),
    columns::AGE,
    wide(
        "IP",
        "string",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
    ),
    wide(
        "Node",
        "string",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible for the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled on a specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
    ),
    wide(
        "Nominated Node",
        "string",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right away as preemption victims receive their graceful termination periods. This field does not guarantee that the pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that is created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is scheduled.",
    ),
    wide(
        "Readiness Gates",
        "string",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers are ready AND all conditions specified in the readiness gates have status equal to \"True\" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
    ),
];

/// Returns the cells of a pod.
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let seen = summary(pod);
    let restarts = match &seen.last_restart {
        Some(time) if seen.restarts != 0 => {
            format!("{} ({} ago)", seen.restarts, columns::human_duration(now.duration_since(*time)))
        }
        _ => seen.restarts.to_string(),
    };
    let ip = items(pod, "/status/podIPs").first().map(|ip| text(ip, "/ip")).unwrap_or_default();
    vec![
        columns::name(pod),
        format!("{}/{}", seen.ready, seen.containers).into(),
        seen.reason.into(),
        restarts.into(),
        columns::age(pod, now),
        columns::or_none(ip).into(),
        columns::or_none(text(pod, "/spec/nodeName")).into(),
        columns::or_none(text(pod, "/status/nominatedNodeName")).into(),
        readiness_gates(pod).into(),
    ]
}

/// Returns the row conditions of a pod: whether it has completed, so that kubectl can hide it.
pub(super) fn row_conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

/// Summary of the container statuses.
struct Summary {
    containers: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

fn summary(pod: &Value) -> Summary {
    let phase = text(pod, "/status/phase");
    let mut reason = match text(pod, "/status/reason") {
        "" => phase.to_owned(),
        reason => reason.to_owned(),
    };
    let conditions = items(pod, "/status/conditions");
    if conditions.iter().any(|c| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated") {
        reason = "SchedulingGated".to_owned();
    }
    let init = items(pod, "/spec/initContainers");
    let sidecars = init.iter().filter(|container| is_sidecar(container)).count();
    let mut seen = Summary {
        containers: items(pod, "/spec/containers").len() + sidecars,
        ready: 0,
        restarts: 0,
        last_restart: None,
        reason,
    };
    let (initializing, sidecar_restarts, sidecar_last) = look_at_init_containers(pod, init, &mut seen);
    let is_initialized = conditions
        .iter()
        .find(|condition| text(condition, "/type") == "Initialized")
        .is_some_and(|condition| text(condition, "/status") == "True");
    if !initializing || is_initialized {
        (seen.restarts, seen.last_restart) = (sidecar_restarts, sidecar_last);
        look_at_containers(pod, &mut seen);
    }
    if is_set(pod, "/metadata/deletionTimestamp") {
        if text(pod, "/status/reason") == "NodeLost" {
            seen.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            seen.reason = "Terminating".to_owned();
        }
    }
    seen
}

/// Returns whether the pod is still initializing, and the number and time of its sidecars' restarts.
fn look_at_init_containers(pod: &Value, specs: &[Value], seen: &mut Summary) -> (bool, i64, Option<Timestamp>) {
    let (mut restarts, mut last) = (0, None);
    for (index, status) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
        let name = text(status, "/name");
        let is_sidecar = specs.iter().rev().find(|spec| text(spec, "/name") == name).is_some_and(is_sidecar);
        let finished = last_finished(status);
        seen.restarts += integer(status, "/restartCount").unwrap_or_default();
        seen.last_restart = seen.last_restart.max(finished);
        if is_sidecar {
            restarts += integer(status, "/restartCount").unwrap_or_default();
            last = last.max(finished);
        }
        let terminated = status.pointer("/state/terminated").filter(|state| !state.is_null());
        let waiting = text(status, "/state/waiting/reason");
        match terminated {
            Some(state) if exit_code(state) == 0 => continue,
            _ if is_sidecar && boolean(status, "/started") == Some(true) => {
                if boolean(status, "/ready") == Some(true) {
                    seen.ready += 1;
                }
                continue;
            }
            Some(state) => seen.reason = format!("Init:{}", termination(state)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => seen.reason = format!("Init:{waiting}"),
            None => seen.reason = format!("Init:{index}/{}", specs.len()),
        }
        return (true, restarts, last);
    }
    (false, restarts, last)
}

fn look_at_containers(pod: &Value, seen: &mut Summary) {
    let (mut has_running, mut error) = (false, String::new());
    for status in items(pod, "/status/containerStatuses").iter().rev() {
        seen.restarts += integer(status, "/restartCount").unwrap_or_default();
        seen.last_restart = seen.last_restart.max(last_finished(status));
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            seen.reason = waiting.to_owned();
        } else if let Some(state) = status.pointer("/state/terminated").filter(|state| !state.is_null()) {
            seen.reason = termination(state);
            if exit_code(state) != 0 {
                error.clone_from(&seen.reason);
            }
        } else if boolean(status, "/ready") == Some(true) && is_set(status, "/state/running") {
            has_running = true;
            seen.ready += 1;
        }
    }
    if seen.reason != "Completed" {
        return;
    }
    let is_ready = items(pod, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True");
    if has_running && is_ready {
        seen.reason = "Running".to_owned();
    } else if !error.is_empty() {
        seen.reason = error;
    } else if has_running {
        seen.reason = "NotReady".to_owned();
    }
}

fn exit_code(state: &Value) -> i64 {
    integer(state, "/exitCode").unwrap_or_default()
}

fn termination(state: &Value) -> String {
    match (text(state, "/reason"), integer(state, "/signal").unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", exit_code(state)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn last_finished(status: &Value) -> Option<Timestamp> {
    text(status, "/lastState/terminated/finishedAt").parse().ok()
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let is_true = |gate: &&Value| {
        items(pod, "/status/conditions")
            .iter()
            .find(|condition| text(condition, "/type") == text(gate, "/conditionType"))
            .is_some_and(|condition| text(condition, "/status") == "True")
    };
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}
