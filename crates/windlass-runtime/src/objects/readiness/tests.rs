use serde_json::json;

use super::*;

fn is(api_version: &str, kind: &str, spec: Value, status: Value, expected: &str) {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "generation": 2 }, "spec": spec });
    if !status.is_null() {
        object["status"] = status;
    }
    let ready = readiness(&object);
    let sort = match &ready {
        Readiness::Ready => "ready",
        Readiness::InProgress(_) => "in progress: ",
        Readiness::Failed(_) => "failed: ",
        other => panic!("{other:?}"),
    };
    let text = if ready.is_ready() { String::new() } else { ready.to_string() };
    assert_eq!(format!("{sort}{text}"), expected, "{object:#}");
}

fn conditions(conditions: &[(&str, &str, &str)]) -> Value {
    let all =
        conditions.iter().map(|(type_, status, reason)| json!({"type": type_, "status": status, "reason": reason}));
    json!({ "conditions": all.collect::<Vec<_>>() })
}

#[test]
fn deployments_are_ready_when_all_replicas_are_new_and_available() {
    let spec = || json!({"replicas": 3});
    let is = |status: Value, expected: &str| is("apps/v1", "Deployment", spec(), status, expected);
    is(Value::Null, "in progress: it is not observed yet");
    is(json!({"observedGeneration": 1}), "in progress: generation 2 is not observed yet, only 1");
    is(json!({"observedGeneration": 2}), "in progress: 0 of 3 replicas exist");
    is(
        json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2}),
        "in progress: 2 of 3 replicas are updated",
    );
    let counts = json!({"observedGeneration": 2, "replicas": 4, "updatedReplicas": 3});
    is(counts, "in progress: 1 old replicas are pending termination");
    let mut counts = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3});
    is(counts.clone(), "in progress: 0 of 3 replicas are available");
    counts["availableReplicas"] = json!(3);
    is(counts.clone(), "ready");
    counts["conditions"] = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    is(counts, "failed: ProgressDeadlineExceeded");
}

#[test]
fn sets_count_their_pods() {
    let status = || json!({"observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2});
    let one = || json!({"replicas": 2});
    is("apps/v1", "StatefulSet", one(), status(), "ready");
    let mut moving = status();
    (moving["currentRevision"], moving["updateRevision"]) = (json!("a"), json!("b"));
    is("apps/v1", "StatefulSet", one(), moving.clone(), "in progress: the update to revision b is not complete");
    let partitioned = json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
    moving["updatedReplicas"] = json!(1);
    is("apps/v1", "StatefulSet", partitioned, moving, "ready");
    is("apps/v1", "ReplicaSet", one(), status(), "in progress: 0 of 2 replicas are labelled");
    let daemons = |ready: i64| {
        json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
               "updatedNumberScheduled": 2, "numberAvailable": 2, "numberReady": ready})
    };
    is("apps/v1", "DaemonSet", json!({}), daemons(1), "in progress: 1 of 2 pods are ready");
    is("apps/v1", "DaemonSet", json!({}), daemons(2), "ready");
}

#[test]
fn pods_jobs_claims_and_services_have_rules_of_their_own() {
    is("v1", "Pod", json!({}), json!({"phase": "Pending"}), "in progress: it is pending");
    let waiting = |reason: &str| json!({"phase": "Running", "containerStatuses": [{"name": "web", "state": {"waiting": {"reason": reason}}}]});
    is("v1", "Pod", json!({}), waiting("ContainerCreating"), "in progress: container web: ContainerCreating");
    is("v1", "Pod", json!({}), waiting("CrashLoopBackOff"), "failed: container web: CrashLoopBackOff");
    let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    is("v1", "Pod", json!({}), running, "ready");
    is("batch/v1", "Job", json!({}), json!({}), "in progress: it has not started");
    is("batch/v1", "Job", json!({}), json!({"startTime": "2026-01-01T00:00:00Z"}), "ready");
    is(
        "batch/v1",
        "Job",
        json!({}),
        conditions(&[("Failed", "True", "BackoffLimitExceeded")]),
        "failed: BackoffLimitExceeded",
    );
    is("v1", "PersistentVolumeClaim", json!({}), json!({"phase": "Pending"}), "in progress: it is not bound");
    is("v1", "Service", json!({}), Value::Null, "ready");
    is("v1", "Service", json!({"type": "LoadBalancer"}), json!({}), "in progress: the load balancer has no address");
    let definition = "apiextensions.k8s.io/v1";
    is(definition, "CustomResourceDefinition", json!({}), conditions(&[("Established", "True", "")]), "ready");
    is("v1", "ConfigMap", Value::Null, Value::Null, "ready");
}

#[test]
fn other_kinds_are_judged_by_their_conditions() {
    let is = |status: Value, expected: &str| is("example.com/v1", "Site", json!({}), status, expected);
    is(Value::Null, "ready");
    is(conditions(&[("Ready", "False", "Starting")]), "in progress: Starting");
    is(conditions(&[("Ready", "True", ""), ("Available", "False", "")]), "ready");
    is(conditions(&[("Available", "Unknown", "")]), "in progress: condition Available is Unknown");
    is(conditions(&[("Stalled", "True", "BadSpec"), ("Ready", "True", "")]), "failed: BadSpec");
    is(conditions(&[("Reconciling", "True", "Busy"), ("Ready", "True", "")]), "in progress: Busy");
    let mut old = conditions(&[("Ready", "True", "")]);
    old["conditions"][0]["observedGeneration"] = json!(1);
    is(old, "in progress: generation 2 is not observed yet, only 1");
    let fresh = json!({"metadata": {"generation": 1}});
    assert_eq!(
        of_kind("example.com", "Site", &fresh, true),
        Readiness::InProgress("no conditions are reported yet".into())
    );
}

#[test]
fn deleted_objects_are_not_ready() {
    let object =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(readiness(&object), Readiness::Terminating);
}
