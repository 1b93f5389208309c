use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pod(status: Value, annotations: Value) -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "default", "uid": "u-1", "resourceVersion": "1", "generation": 1,
            "annotations": annotations,
        },
        "spec": {"nodeName": "node-1", "restartPolicy": "Always", "containers": [{"name": "main", "image": "nginx"}]},
        "status": status,
    })
}

fn environment() -> Environment<'static> {
    Environment {
        now: Timestamp::from_second(1_000).unwrap(),
        pod_address: &|| "10.244.0.2".to_owned(),
        host_address: &|| "172.18.0.2".to_owned(),
    }
}

/// Ends the stages of a pod one after the other until it stays in one. Returns their names, the total duration and the
/// final state.
fn live(stages: &Stages, mut pod: Value, limit: usize) -> (Vec<String>, SignedDuration, Value) {
    let mut now = Timestamp::from_second(1_000).unwrap();
    let begin = now;
    let (mut names, mut before) = (Vec::new(), Vec::new());
    for _ in 0..limit {
        let object = with_facts(pod.clone(), now);
        let chosen = choose(stages, Subject::Pod, &object, &before, 7, now);
        let Some(next) = chosen.iter().min_by_key(|chosen| chosen.due).copied() else { break };
        now = next.due.max(now);
        before = chosen.into_iter().filter(|chosen| chosen.stage != next.stage).collect();
        names.push(stages.stages[next.stage].name.clone());
        let whole = Timestamp::from_second(now.as_second()).unwrap();
        let ended = transition(stages, next.stage, &object, &Environment { now: whole, ..environment() });
        if ended.delete {
            break;
        }
        if let Some(status) = ended.status {
            pod["status"] = status;
        }
    }
    (names, now.duration_since(begin), pod)
}

fn pending() -> Value {
    json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]})
}

#[test]
fn a_pod_without_annotations_is_ready_after_one_write() {
    let (names, took, pod) = live(&Stages::default(), pod(pending(), json!({})), 10);
    assert_eq!(names, ["pod-start"]);
    assert_eq!(took, SignedDuration::ZERO);
    assert_eq!(pod["status"]["phase"], "Running");
    let holding = pod["status"]["conditions"].as_array().unwrap().iter().filter(|one| one["status"] == "True");
    assert_eq!(holding.count(), 5);
}

#[test]
fn annotations_control_the_behaviour_of_a_pod() {
    for (annotations, expected, seconds) in [
        (json!({"windlass.dev/start-delay": "3s"}), &["pod-create", "pod-start"][..], 3),
        (json!({"windlass.dev/ready-delay": "4s"}), &["pod-start", "pod-ready"], 4),
        (json!({"windlass.dev/ready": "false"}), &["pod-start"], 0),
        (json!({"windlass.dev/waiting": "ErrImagePull"}), &["pod-create", "pod-hold"], 0),
        (
            json!({"windlass.dev/run-for": "5s"}),
            &[
                "pod-start",
                "pod-end",
                "pod-restart",
                "pod-end",
                "pod-back-off",
                "pod-restart",
                "pod-end",
                "pod-back-off",
            ],
            25,
        ),
        (json!({"windlass.dev/start-delay": "nonsense"}), &["pod-create", "pod-start"], 0),
    ] {
        let (names, took, _) =
            live(&Stages::default(), pod(pending(), annotations.clone()), expected.len().clamp(6, 8));
        let names: Vec<&str> = names.iter().take(expected.len()).map(String::as_str).collect();
        assert_eq!(names, expected, "{annotations}");
        assert_eq!(took.as_secs(), seconds, "{annotations}");
    }
}

#[test]
fn a_pod_of_a_job_completes() {
    let mut job = pod(pending(), json!({}));
    job["metadata"]["ownerReferences"] = json!([{"kind": "Job", "controller": true, "name": "j", "uid": "j"}]);
    job["spec"]["restartPolicy"] = "Never".into();
    job["spec"]["initContainers"] = json!([{"name": "side", "image": "a", "restartPolicy": "Always"}]);
    let (names, took, pod) = live(&Stages::default(), job, 10);
    assert_eq!(names, ["pod-start", "pod-end"]);
    assert_eq!(took.as_secs(), 1);
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert!(pod["status"]["initContainerStatuses"][0]["state"]["terminated"].is_object());
}

#[test]
fn a_deleted_pod_is_removed() {
    let (_, _, mut running) = live(&Stages::default(), pod(pending(), json!({"windlass.dev/stop-delay": "9s"})), 10);
    running["metadata"]["deletionTimestamp"] = "1970-01-01T00:16:40Z".into();
    running["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    let (names, took, _) = live(&Stages::default(), running.clone(), 10);
    assert_eq!((names, took.as_secs()), (vec!["pod-remove".to_owned()], 9));
    let mut generous = running.clone();
    generous["metadata"]["annotations"] = json!({});
    for (own, seconds) in [(29, 1), (30, 0), (31, 0)] {
        generous["spec"]["terminationGracePeriodSeconds"] = own.into();
        let (names, took, _) = live(&Stages::default(), generous.clone(), 10);
        assert_eq!((names, took.as_secs()), (vec!["pod-remove".to_owned()], seconds), "{own}");
    }
    for (sleep, seconds) in [(5, 5), (60, 30)] {
        generous["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": sleep}}});
        let (_, took, _) = live(&Stages::default(), generous.clone(), 10);
        assert_eq!(took.as_secs(), seconds, "{sleep}");
    }
    running["metadata"]["finalizers"] = json!(["a/b"]);
    let (names, _, pod) = live(&Stages::default(), running, 10);
    assert_eq!(names, ["pod-stop", "pod-remove-finalized"]);
    assert_eq!(pod["status"]["phase"], "Failed");
}

#[test]
fn containers_of_a_pod_with_init_containers_wait_for_its_initialization() {
    let mut failing = pod(pending(), json!({}));
    failing["spec"]["initContainers"] =
        json!([{"name": "one", "image": "i", "command": ["false"]}, {"name": "two", "image": "i"}]);
    let (_, _, pod) = live(&Stages::default(), failing, 2);
    let status = &pod["status"];
    for entry in [&status["initContainerStatuses"][1], &status["containerStatuses"][0]] {
        assert_eq!(entry["state"]["waiting"]["reason"], "PodInitializing", "{entry}");
    }
}

#[test]
fn an_ephemeral_container_starts_after_the_change_of_the_spec_is_recorded() {
    let (_, _, mut running) = live(&Stages::default(), pod(pending(), json!({})), 10);
    running["metadata"]["generation"] = 2.into();
    running["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "busybox"}]);
    let (names, _, pod) = live(&Stages::default(), running, 10);
    assert!(names.contains(&"pod-ephemeral".to_owned()), "{names:?}");
    assert!(pod["status"]["ephemeralContainerStatuses"][0]["state"]["running"].is_object(), "{}", pod["status"]);
}

fn stages(spec: Value) -> Result<Stages, StageError> {
    let stage = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Stage", "metadata": {"name": "mine"}, "spec": spec,
    });
    Stages::parse(&stage.to_string())
}

#[test]
fn an_invalid_stage_is_explained() {
    for (spec, expected) in [
        (json!({}), "missing field `next`"),
        (json!({"next": {"status": 1}}), "status: must be an object"),
        (
            json!({"next": {"status": {"a": "$(nope)"}}}),
            "$(nope): unknown placeholder, expected now, podIP, hostIP, nodeName or a path",
        ),
        (json!({"next": {"containers": [{"of": "some"}]}}), "containers: unknown variant `some`"),
        (json!({"next": {"conditions": [{"status": "True"}]}}), "conditions need a type"),
        (json!({"resourceRef": {"kind": "Service"}, "next": {}}), "unknown variant `Service`"),
        (
            json!({"resourceRef": {"kind": "Node"}, "next": {"containers": [{"of": "init"}]}}),
            "nodes have no containers",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "status", "operator": "Exists"}]}, "next": {}}),
            "status: a path must start with a dot",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": ".a", "operator": "In"}]}, "next": {}}),
            ".a: In needs values",
        ),
        (json!({"selector": {"matchExpressions": [{"key": ".a[", "operator": "Exists"}]}, "next": {}}), ".a[: "),
    ] {
        let error = stages(spec.clone()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("stage mine: {expected}")), "{spec}: {error}");
    }
    let kind = Stages::parse("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {next: {}}").unwrap_err();
    assert_eq!(kind.to_string(), "stage a: expected windlass.dev/v1alpha1, Stage, found v1, Pod");
}

#[test]
fn a_document_may_begin_with_a_comment_after_its_separator() {
    let stage = |name: &str| {
        format!(
            "kind: Stage\napiVersion: windlass.dev/v1alpha1\nmetadata: {{name: {name}}}\nspec: {{resourceRef: {{kind: Pod}}, next: {{}}}}\n"
        )
    };
    let text = format!("# comment\n---\n{}--- # the second\n{}---\n  # indented\n", stage("first"), stage("second"));
    let names: Vec<_> = Stages::parse(&text).unwrap().stages.iter().map(|stage| stage.name.clone()).collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn stages_of_a_file_replace_those_with_the_same_name() {
    let slow = "
apiVersion: windlass.dev/v1alpha1
kind: List
items:
- apiVersion: windlass.dev/v1alpha1
  kind: Stage
  metadata: {name: pod-start}
  spec: {weight: 0, next: {}}
- apiVersion: windlass.dev/v1alpha1
  kind: Stage
  metadata: {name: mine}
  spec:
    selector:
      matchLabels: {app: web}
      matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]
    delay: {durationMilliseconds: 1500}
    next:
      status: {phase: Running, message: 'at $(now) as $(.metadata.name) on $(nodeName)'}
      conditions: [{type: Mine, status: 'True'}]
";
    let both = Stages::default().with(&Stages::parse(slow).unwrap());
    let mut mine = pod(pending(), json!({}));
    assert_eq!(live(&both, mine.clone(), 5).0, Vec::<String>::new());
    mine["metadata"]["labels"] = json!({"app": "web"});
    let (names, took, pod) = live(&both, mine, 5);
    assert_eq!((names, took), (vec!["mine".to_owned()], SignedDuration::from_millis(1500)));
    assert_eq!(pod["status"]["message"], "at 1970-01-01T00:16:41Z as web on node-1");
    assert!(pod["status"]["conditions"].as_array().unwrap().iter().any(|one| one["type"] == "Mine"));
}

fn file(stages: &[Value]) -> Stages {
    let documents = stages.iter().enumerate().map(|(number, spec)| {
        json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Stage",
            "metadata": {"name": format!("stage-{number}")}, "spec": spec,
        })
        .to_string()
    });
    Stages::parse(&documents.collect::<Vec<_>>().join("\n---\n")).unwrap()
}

#[test]
fn weights_decide_among_matching_stages() {
    let stages = file(&[json!({"weight": 3, "next": {}}), json!({"next": {}}), json!({"weight": 0, "next": {}})]);
    let object = pod(pending(), json!({}));
    let mut counts = [0; 3];
    for chance in 0..400 {
        let chosen = choose(&stages, Subject::Pod, &object, &[], chance, Timestamp::UNIX_EPOCH);
        assert_eq!(chosen.len(), 1);
        counts[chosen[0].stage] += 1;
    }
    assert_eq!(counts, [300, 100, 0]);
}

#[test]
fn an_object_stays_in_a_matching_stage_while_timers_run() {
    let phase = json!({"matchExpressions": [{"key": ".status.phase", "operator": "In", "values": ["Pending"]}]});
    let stages = file(&[
        json!({"delay": {"durationMilliseconds": 500}, "selector": phase, "next": {}}),
        json!({"delay": {"durationMilliseconds": 400}, "next": {}}),
        json!({"timer": true, "delay": {"durationMilliseconds": 900}, "next": {}}),
    ]);
    let (start, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_millisecond(300).unwrap());
    let object = pod(pending(), json!({}));
    let first = choose(&stages, Subject::Pod, &object, &[], 0, start);
    assert_eq!(first.iter().map(|chosen| chosen.stage).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(choose(&stages, Subject::Pod, &object, &first, 1, later), first);
    let running = pod(json!({"phase": "Running"}), json!({}));
    let second = choose(&stages, Subject::Pod, &running, &first, 1, later);
    assert_eq!(second[0], first[0]);
    assert_eq!((second[1].stage, second[1].due), (1, Timestamp::from_millisecond(700).unwrap()));
}

proptest! {
    #[test]
    fn a_delay_is_within_its_bounds(least in 0_u64..10_000, more in 0_u64..10_000, chance: u64) {
        let delay = json!({"durationMilliseconds": least, "jitterDurationMilliseconds": least + more});
        let stages = file(&[json!({"delay": delay, "next": {}})]);
        let object = pod(pending(), json!({}));
        let due = choose(&stages, Subject::Pod, &object, &[], chance, Timestamp::UNIX_EPOCH)[0].due;
        let waited: Duration = due.duration_since(Timestamp::UNIX_EPOCH).try_into().unwrap();
        prop_assert!(waited >= Duration::from_millis(least));
        prop_assert!(waited <= Duration::from_millis(least + more + 1));
    }

    #[test]
    fn no_stage_text_panics(text in ".{0,200}") {
        let _ = Stages::parse(&text);
        let _ = stages(json!({"next": {"status": {"a": text}}}));
        let path = json!({"matchExpressions": [{"key": format!(".{text}"), "operator": "Exists"}]});
        if let Ok(stages) = stages(json!({"selector": path, "next": {"status": {"a": "$(.a)"}}})) {
            live(&stages, pod(pending(), json!({})), 3);
        }
    }

    #[test]
    fn every_pod_reaches_a_final_stage_or_loops_slowly(
        policy in prop::sample::select(vec!["Always", "OnFailure", "Never"]),
        init in prop::collection::vec(any::<bool>(), 0..4),
        containers in 1_usize..4,
        annotations in prop::collection::btree_map(
            prop::sample::select(vec![
                "start-delay", "init-duration", "init-exit-code", "ready-delay", "ready", "run-for", "exit-code", "waiting",
            ]),
            prop::sample::select(vec!["0", "1", "0s", "1s", "1m", "false", "x"]),
            0..5,
        ),
    ) {
        let annotations = annotations.into_iter().map(|(name, value)| (format!("windlass.dev/{name}"), json!(value)));
        let mut object = pod(pending(), Value::Object(annotations.collect()));
        object["spec"]["restartPolicy"] = policy.into();
        let named = |prefix: &str, number: usize| json!({"name": format!("{prefix}-{number}"), "image": "a"});
        object["spec"]["containers"] = (0..containers).map(|number| named("main", number)).collect();
        object["spec"]["initContainers"] = init
            .iter()
            .enumerate()
            .map(|(number, sidecar)| {
                let mut container = named("init", number);
                if *sidecar {
                    container["restartPolicy"] = "Always".into();
                }
                container
            })
            .collect();
        let (names, took, last) = live(&Stages::default(), object, 60);
        // The backoff of restarts grows: sixty writes take longer than a few minutes.
        prop_assert!(names.len() < 60 || took > SignedDuration::from_mins(5), "{names:?} {took:?}");
        let phase = last["status"]["phase"].as_str().unwrap();
        prop_assert!(["Pending", "Running", "Succeeded", "Failed"].contains(&phase));
        if matches!(phase, "Succeeded" | "Failed") {
            let running = last["status"].to_string().contains("\"running\":{");
            prop_assert!(!running, "{last}");
        }
    }
}
