use serde_json::json;

use super::*;

/// A running pod with two containers. A change of the memory of the second one restarts it.
fn running() -> Value {
    let container = |name: &str, policy: &str| {
        json!({
            "name": name, "image": "nginx",
            "resources": {"requests": {"cpu": "100m", "memory": "10Mi"}, "limits": {"cpu": "1"}},
            "resizePolicy": [{"resourceName": "memory", "restartPolicy": policy}],
        })
    };
    let mut pod = json!({
        "metadata": {"name": "web", "uid": "u", "generation": 1},
        "spec": {"containers": [container("a", "NotRequired"), container("b", "RestartContainer")]},
        "status": {"phase": "Running", "podIP": "10.244.0.2", "observedGeneration": 1},
        "facts": {"readyAtOnce": true},
    });
    let mut status = pod["status"].clone();
    containers::complete(&pod, &mut status);
    let start = containers::Change {
        ready: Some(true),
        started: Some(true),
        ..containers::Change::new(containers::Which::Containers, containers::State::Running)
    };
    report(&pod, &mut status);
    assert!(status["containerStatuses"][0].get("resources").is_none(), "nothing has started");
    containers::apply(&pod, &mut status, &start, now());
    report(&pod, &mut status);
    pod["status"] = status;
    pod
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000).unwrap()
}

fn resize(pod: &mut Value, container: usize, resources: Value) {
    pod["spec"]["containers"][container]["resources"] = resources;
    pod["metadata"]["generation"] = (pod["metadata"]["generation"].as_i64().unwrap() + 1).into();
}

/// Applies the next step; returns the reason and message of its event.
fn step(pod: &mut Value, shortage: Option<&str>) -> Option<(String, String)> {
    let shortage = shortage.map(|message| Shortage { reason: "OutOfcpu".to_owned(), message: message.to_owned() });
    let step = next_step(pod, || shortage, now())?;
    pod["status"] = step.status;
    step.event.map(|event| (event.reason, event.message))
}

fn reason(event: Option<(String, String)>) -> String {
    event.map(|(reason, _)| reason).unwrap_or_default()
}

#[test]
fn started_containers_and_the_pod_report_their_resources() {
    let pod = running();
    let entry = &pod["status"]["containerStatuses"][0];
    assert_eq!(entry["resources"], pod["spec"]["containers"][0]["resources"]);
    assert_eq!(entry["allocatedResources"], json!({"cpu": "100m", "memory": "10Mi"}));
    let requests = json!({"cpu": "200m", "memory": "20Mi"});
    assert_eq!(pod["status"]["allocatedResources"], requests);
    assert_eq!(pod["status"]["resources"], json!({"requests": requests, "limits": {"cpu": "2"}}));
    assert_eq!(next_step(&pod, || None, now()), None);
}

#[test]
fn a_resize_is_allocated_and_then_actuated() {
    let mut pod = running();
    let wanted = json!({"requests": {"cpu": "200m", "memory": "10Mi"}, "limits": {"cpu": "1"}});
    resize(&mut pod, 0, wanted.clone());
    let (reason, message) = step(&mut pod, None).unwrap();
    assert_eq!(reason, "ResizeStarted");
    assert!(message.starts_with("Pod resize started: {\"containers\":[{\"name\":\"a\",\"resources\":{"), "{message}");
    assert!(message.ends_with("\"generation\":2}"), "{message}");
    let entry = &pod["status"]["containerStatuses"][0];
    assert_eq!(entry["allocatedResources"]["cpu"], "200m");
    assert_eq!(entry["resources"]["requests"]["cpu"], "100m");
    let progress = condition(&pod["status"], IN_PROGRESS).unwrap();
    assert_eq!((&progress["status"], &progress["observedGeneration"]), (&json!("True"), &json!(2)));

    assert_eq!(self::reason(step(&mut pod, None)), "ResizeCompleted");
    let entry = &pod["status"]["containerStatuses"][0];
    assert_eq!((&entry["resources"], &entry["restartCount"]), (&wanted, &json!(0)));
    assert_eq!(pod["status"]["resources"]["requests"]["cpu"], "300m");
    assert!(condition(&pod["status"], IN_PROGRESS).is_none());
    assert_eq!(next_step(&pod, || None, now()), None);
}

#[test]
fn containers_restart_as_their_resize_policy_demands() {
    let mut pod = running();
    for container in [0, 1] {
        resize(&mut pod, container, json!({"requests": {"cpu": "100m", "memory": "20Mi"}, "limits": {"cpu": "1"}}));
    }
    step(&mut pod, None);
    step(&mut pod, None);
    let restarts = |pod: &Value| {
        let statuses = pod["status"]["containerStatuses"].as_array().unwrap().clone();
        statuses.iter().map(|entry| entry["restartCount"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(restarts(&pod), [0, 1]);
    let entry = &pod["status"]["containerStatuses"][1];
    assert_eq!((&entry["ready"], &entry["lastState"]["terminated"]["exitCode"]), (&json!(true), &json!(143)));
    // The policy is for memory only.
    resize(&mut pod, 1, json!({"requests": {"cpu": "300m", "memory": "20Mi"}, "limits": {"cpu": "1"}}));
    step(&mut pod, None);
    step(&mut pod, None);
    assert_eq!(restarts(&pod), [0, 1]);
}

#[test]
fn a_resize_is_deferred_until_the_node_has_room_or_it_is_taken_back() {
    let mut pod = running();
    let before = pod["spec"]["containers"][0]["resources"].clone();
    resize(&mut pod, 0, json!({"requests": {"cpu": "900m", "memory": "10Mi"}, "limits": {"cpu": "1"}}));
    let (reason, message) = step(&mut pod, Some("too little")).unwrap();
    assert_eq!(reason, "ResizeDeferred");
    assert!(
        message.starts_with("Pod resize OutOfcpu: {") && message.ends_with("\"error\":\"too little\"}"),
        "{message}"
    );
    let pending = condition(&pod["status"], PENDING).unwrap();
    assert_eq!((&pending["reason"], &pending["message"]), (&json!("Deferred"), &json!("too little")));
    assert_eq!(pending["observedGeneration"], 2);
    assert!(is_deferred(&pod));
    assert_eq!(pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"], "100m");
    assert_eq!(
        next_step(&pod, || Some(Shortage { reason: "OutOfcpu".into(), message: "too little".into() }), now()),
        None
    );

    let mut reverted = pod.clone();
    resize(&mut reverted, 0, before);
    assert_eq!(step(&mut reverted, None), None);
    assert!(!is_deferred(&reverted) && next_step(&reverted, || None, now()).is_none());

    assert_eq!(self::reason(step(&mut pod, None)), "ResizeStarted");
    assert!(!is_deferred(&pod));
    assert_eq!(self::reason(step(&mut pod, None)), "ResizeCompleted");
}

#[test]
fn a_resize_of_the_pod_itself_takes_effect_in_the_same_way() {
    let mut pod = running();
    pod["spec"]["resources"] = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    report(&pod.clone(), &mut pod["status"]);
    assert_eq!(self::reason(step(&mut pod, None)), "ResizeStarted");
    assert_eq!(pod["status"]["allocatedResources"], json!({"cpu": "1", "memory": "1Gi"}));
    assert_eq!(pod["status"]["resources"]["requests"]["cpu"], "200m");
    assert_eq!(self::reason(step(&mut pod, None)), "ResizeCompleted");
    assert_eq!(pod["status"]["resources"]["requests"]["cpu"], "1");
    assert_eq!(next_step(&pod, || None, now()), None);
}

#[test]
fn pods_that_end_are_not_resized() {
    let mut pod = running();
    resize(&mut pod, 0, json!({"requests": {"cpu": "2"}}));
    step(&mut pod, Some("too little"));
    let mut deleted = pod.clone();
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(next_step(&deleted, || None, now()), None);
    pod["status"]["phase"] = "Succeeded".into();
    assert_eq!(next_step(&pod, || None, now()), None);
    report(&pod.clone(), &mut pod["status"]);
    assert!(!is_deferred(&pod));
}
