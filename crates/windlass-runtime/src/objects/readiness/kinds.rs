//! The rules of built-in kinds.

use serde_json::Value;

use super::{Readiness, condition};

type Rule = fn(&Value) -> Readiness;

/// Returns the rule of a built-in kind, if it has one of its own.
pub(super) fn rule(group: &str, kind: &str) -> Option<Rule> {
    Some(match (group, kind) {
        ("apps", "Deployment") => deployment,
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set,
        ("apps", "StatefulSet") => stateful_set,
        ("apps", "DaemonSet") => daemon_set,
        ("batch", "Job") => job,
        ("", "Pod") => pod,
        ("", "PersistentVolumeClaim") => claim,
        ("", "Service") => service,
        ("policy", "PodDisruptionBudget") => budget,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition,
        _ => return None,
    })
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns `spec.replicas`, which is 1 by default.
fn replicas(object: &Value) -> i64 {
    object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

/// Returns the first count that is too low, as `(count, wanted, what)`.
fn too_few(counts: &[(i64, i64, &str)]) -> Option<Readiness> {
    let (count, wanted, what) = counts.iter().find(|(count, wanted, _)| count < wanted)?;
    Some(Readiness::InProgress(format!("{count} of {wanted} {what}")))
}

/// Returns `InProgress` if the controller of the object has not reported anything yet.
fn unreported(object: &Value) -> Option<Readiness> {
    let none = object.pointer("/status/observedGeneration").is_none();
    none.then(|| Readiness::InProgress("it is not observed yet".into()))
}

fn deployment(object: &Value) -> Readiness {
    if let Some(progressing) = condition(object, "Progressing")
        && progressing.reason() == "ProgressDeadlineExceeded"
    {
        return Readiness::Failed(progressing.text());
    }
    if let Some(waiting) = unreported(object) {
        return waiting;
    }
    let wanted = replicas(object);
    let updated = number(object, "/status/updatedReplicas");
    let too_few = too_few(&[
        (number(object, "/status/replicas"), wanted, "replicas exist"),
        (updated, wanted, "replicas are updated"),
    ]);
    if let Some(waiting) = too_few {
        return waiting;
    }
    let surplus = number(object, "/status/replicas") - updated;
    if surplus > 0 {
        return Readiness::InProgress(format!("{surplus} old replicas are pending termination"));
    }
    let too_few = self::too_few(&[
        (number(object, "/status/readyReplicas"), wanted, "replicas are ready"),
        (number(object, "/status/availableReplicas"), wanted, "replicas are available"),
    ]);
    too_few.unwrap_or(Readiness::Ready)
}

fn replica_set(object: &Value) -> Readiness {
    if let Some(failure) = condition(object, "ReplicaFailure").filter(|failure| failure.is("True")) {
        return Readiness::InProgress(failure.text());
    }
    if let Some(waiting) = unreported(object) {
        return waiting;
    }
    let wanted = replicas(object);
    let too_few = too_few(&[
        (number(object, "/status/fullyLabeledReplicas"), wanted, "replicas are labelled"),
        (number(object, "/status/readyReplicas"), wanted, "replicas are ready"),
        (number(object, "/status/availableReplicas"), wanted, "replicas are available"),
    ]);
    let surplus = number(object, "/status/replicas") - wanted;
    match too_few {
        Some(waiting) => waiting,
        None if surplus > 0 => Readiness::InProgress(format!("{surplus} replicas are pending termination")),
        None => Readiness::Ready,
    }
}

fn stateful_set(object: &Value) -> Readiness {
    // Its pods are replaced when a user deletes them.
    if text(object, "/spec/updateStrategy/type") == "OnDelete" {
        return Readiness::Ready;
    }
    if let Some(waiting) = unreported(object) {
        return waiting;
    }
    let wanted = replicas(object);
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition");
    let too_few = too_few(&[
        (number(object, "/status/replicas"), wanted, "replicas exist"),
        (number(object, "/status/readyReplicas"), wanted, "replicas are ready"),
        (number(object, "/status/updatedReplicas"), (wanted - partition).max(0), "replicas are updated"),
    ]);
    if let Some(waiting) = too_few {
        return waiting;
    }
    let surplus = number(object, "/status/replicas") - wanted;
    if surplus > 0 {
        return Readiness::InProgress(format!("{surplus} replicas are pending termination"));
    }
    let (current, update) = (text(object, "/status/currentRevision"), text(object, "/status/updateRevision"));
    match partition == 0 && current != update {
        true => Readiness::InProgress(format!("the update to revision {update} is not complete")),
        false => Readiness::Ready,
    }
}

fn daemon_set(object: &Value) -> Readiness {
    if let Some(waiting) = unreported(object) {
        return waiting;
    }
    if text(object, "/spec/updateStrategy/type") == "OnDelete" {
        return Readiness::Ready;
    }
    let wanted = number(object, "/status/desiredNumberScheduled");
    let too_few = too_few(&[
        (number(object, "/status/currentNumberScheduled"), wanted, "pods are scheduled"),
        (number(object, "/status/updatedNumberScheduled"), wanted, "pods are updated"),
        (number(object, "/status/numberAvailable"), wanted, "pods are available"),
        (number(object, "/status/numberReady"), wanted, "pods are ready"),
    ]);
    too_few.unwrap_or(Readiness::Ready)
}

/// A Job is ready when it has started: it may run for days. It has failed when it has used up its retries.
fn job(object: &Value) -> Readiness {
    if let Some(failed) = condition(object, "Failed").filter(|failed| failed.is("True")) {
        return Readiness::Failed(failed.text());
    }
    if condition(object, "Complete").is_some_and(|complete| complete.is("True")) {
        return Readiness::Ready;
    }
    if condition(object, "Suspended").is_some_and(|suspended| suspended.is("True")) {
        return Readiness::Ready;
    }
    match object.pointer("/status/startTime").is_some_and(|time| !time.is_null()) {
        true => Readiness::Ready,
        false => Readiness::InProgress("it has not started".into()),
    }
}

fn pod(object: &Value) -> Readiness {
    match text(object, "/status/phase") {
        "Succeeded" => Readiness::Ready,
        "Failed" => Readiness::Failed("it has failed".into()),
        "Running" if condition(object, "Ready").is_some_and(|ready| ready.is("True")) => Readiness::Ready,
        "Running" => match waiting_container(object) {
            Some(crashing) if crashing.contains("CrashLoopBackOff") => Readiness::Failed(crashing),
            Some(waiting) => Readiness::InProgress(waiting),
            None => Readiness::InProgress("it is running, but not ready".into()),
        },
        _ => match condition(object, "PodScheduled").filter(|scheduled| scheduled.is("False")) {
            Some(scheduled) => Readiness::InProgress(scheduled.text()),
            None => Readiness::InProgress(waiting_container(object).unwrap_or_else(|| "it is pending".into())),
        },
    }
}

/// Returns the first container that waits, and why.
fn waiting_container(pod: &Value) -> Option<String> {
    let containers = pod.pointer("/status/containerStatuses")?.as_array()?;
    containers.iter().find_map(|container| {
        let reason = text(container, "/state/waiting/reason");
        (!reason.is_empty()).then(|| format!("container {}: {reason}", text(container, "/name")))
    })
}

fn claim(object: &Value) -> Readiness {
    match text(object, "/status/phase") {
        "Bound" => Readiness::Ready,
        _ => Readiness::InProgress("it is not bound".into()),
    }
}

fn service(object: &Value) -> Readiness {
    if text(object, "/spec/type") != "LoadBalancer" {
        return Readiness::Ready;
    }
    let ingress = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    match ingress.is_some_and(|ingress| !ingress.is_empty()) {
        true => Readiness::Ready,
        false => Readiness::InProgress("the load balancer has no address".into()),
    }
}

fn budget(object: &Value) -> Readiness {
    unreported(object).unwrap_or(Readiness::Ready)
}

fn definition(object: &Value) -> Readiness {
    if let Some(refused) = condition(object, "NamesAccepted").filter(|accepted| accepted.is("False")) {
        return Readiness::Failed(refused.text());
    }
    match condition(object, "Established") {
        Some(established) if established.is("True") => Readiness::Ready,
        Some(established) if established.is("False") && established.reason() != "Installing" => {
            Readiness::Failed(established.text())
        }
        _ => Readiness::InProgress("it is not established".into()),
    }
}
