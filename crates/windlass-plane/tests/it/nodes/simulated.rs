//! Simulated nodes and the pods on them.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use windlass_plane::{NodeOptions, Stages};
use windlass_testing::{TestPlane, eventually};

pub(crate) fn pod(name: &str, spec: Value) -> Pod {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.29"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        match field.as_str() {
            "annotations" | "labels" | "finalizers" => pod["metadata"][field] = value.clone(),
            _ => pod["spec"][field] = value.clone(),
        }
    }
    serde_json::from_value(pod).unwrap()
}

pub(crate) async fn create(plane: &TestPlane, pod: &Pod) -> Pod {
    plane.api::<Pod>().create(&PostParams::default(), pod).await.unwrap()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[tokio::test]
async fn pods_become_ready_on_nodes() {
    let plane = TestPlane::builder().nodes(2).await;
    let pods = plane.api::<Pod>();
    create(&plane, &pod("web", json!({}))).await;
    let pod = eventually("it is ready", async || pods.get("web").await.ok().filter(is_ready)).await;
    let status = pod.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert!(status.pod_ip.unwrap().starts_with("10.244."));
    assert!(status.host_ip.unwrap().starts_with("172.18."));
    let container = &status.container_statuses.unwrap()[0];
    assert!(container.ready && container.container_id.as_ref().unwrap().starts_with("containerd://"));
    assert!(container.image_id.starts_with("docker.io/library/nginx@sha256:"));
}

#[tokio::test]
async fn nodes_are_ready_and_renew_their_leases() {
    let plane = TestPlane::builder().nodes(2).virtual_time().await;
    let nodes: Api<Node> = Api::all(plane.client());
    let well = |node: &Node| {
        let status = node.status.as_ref()?;
        let ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
        (ready && node.spec.as_ref()?.taints.is_none()).then_some(())
    };
    for name in ["node-1", "node-2"] {
        eventually("it is healthy", async || well(&nodes.get(name).await.ok()?)).await;
    }
    let leases: Api<Lease> = Api::namespaced(plane.client(), "kube-node-lease");
    let renewed = async || leases.get("node-1").await.ok()?.spec?.renew_time;
    let first = eventually("there is a lease", renewed).await;
    tokio::time::sleep(std::time::Duration::from_secs(11)).await;
    let second = eventually("it is renewed", async || renewed().await.filter(|time| *time != first)).await;
    assert!(second.0.duration_since(first.0).as_secs() >= 10);
}

#[tokio::test]
async fn a_deleted_pod_is_removed() {
    let plane = TestPlane::builder().nodes(1).await;
    let pods = plane.api::<Pod>();
    create(&plane, &pod("web", json!({}))).await;
    eventually("it is ready", async || pods.get("web").await.ok().filter(is_ready)).await;
    pods.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("it is deleted", async || pods.get_opt("web").await.unwrap().is_none().then_some(())).await;
}

/// Advances virtual time: far cheaper than polling meanwhile.
async fn pass(seconds: u64) {
    tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
}

/// Waits until the status of a pod satisfies a predicate.
pub(super) async fn until(plane: &TestPlane, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let pods = plane.api::<Pod>();
    eventually(what, async || {
        let pod = serde_json::to_value(pods.get_opt(name).await.unwrap()?).unwrap();
        holds(&pod).then_some(pod)
    })
    .await
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

fn time(value: &Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_pod_says_that_it_is_being_created_while_its_start_takes_time() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    create(&plane, &pod("web", json!({"annotations": {"windlass.dev/start-delay": "30s"}}))).await;
    let creating = until(&plane, "web", "it is created", |pod| pod["status"]["startTime"].is_string()).await;
    let waiting = &creating["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!((&creating["status"]["phase"], &waiting["reason"]), (&json!("Pending"), &json!("ContainerCreating")));
    assert_eq!(condition(&creating, "Ready")["reason"], "ContainersNotReady");
    pass(30).await;
    let running = until(&plane, "web", "it runs", |pod| pod["status"]["phase"] == "Running").await;
    let started = &running["status"]["containerStatuses"][0]["state"]["running"]["startedAt"];
    let delay = time(started).duration_since(time(&running["status"]["startTime"]));
    assert!((30..32).contains(&delay.as_secs()), "{delay:?}");
}

#[tokio::test]
async fn a_pod_that_names_its_node_is_rejected_if_its_host_port_is_taken() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let container = json!([{"name": "main", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}]);
    let on_node = |name: &str| pod(name, json!({"nodeName": "node-1", "containers": container}));
    create(&plane, &on_node("first")).await;
    until(&plane, "first", "it runs", |pod| pod["status"]["phase"] == "Running").await;
    create(&plane, &on_node("second")).await;
    let rejected = until(&plane, "second", "it has failed", |pod| pod["status"]["phase"] == "Failed").await;
    assert_eq!(rejected["status"]["reason"], "NodePorts");
    plane.api::<Pod>().delete("first", &DeleteParams::default()).await.unwrap();
    let gone = async || plane.api::<Pod>().get_opt("first").await.unwrap().is_none().then_some(());
    eventually("the first is gone", gone).await;
    create(&plane, &on_node("third")).await;
    until(&plane, "third", "it runs", |pod| pod["status"]["phase"] == "Running").await;
}

#[tokio::test]
async fn readiness_waits_for_probes_and_follows_the_annotation() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let probe = json!({"initialDelaySeconds": 20, "exec": {"command": ["true"]}});
    let spec = json!({"containers": [{"name": "main", "image": "a", "readinessProbe": probe}]});
    create(&plane, &pod("web", spec)).await;
    let running = until(&plane, "web", "it runs", |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(condition(&running, "Ready")["message"], "containers with unready status: [main]");
    pass(20).await;
    let ready = until(&plane, "web", "it is ready", |pod| condition(pod, "Ready")["status"] == "True").await;
    let since = time(&condition(&ready, "Ready")["lastTransitionTime"]);
    assert!(since.duration_since(time(&ready["status"]["startTime"])).as_secs() >= 20);

    let pods = plane.api::<Pod>();
    let annotate = async |value: Value| {
        let patch = json!({"metadata": {"annotations": {"windlass.dev/ready": value}}});
        pods.patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    };
    annotate(json!("false")).await;
    until(&plane, "web", "it is not ready", |pod| condition(pod, "Ready")["status"] == "False").await;
    annotate(Value::Null).await;
    pass(20).await;
    until(&plane, "web", "it is ready again", |pod| condition(pod, "Ready")["status"] == "True").await;
}

#[tokio::test]
async fn init_containers_run_in_order_and_sidecars_keep_running() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let spec = json!({
        "annotations": {"windlass.dev/init-duration": "10s"},
        "initContainers": [
            {"name": "one", "image": "a"},
            {"name": "side", "image": "a", "restartPolicy": "Always"},
            {"name": "two", "image": "a"},
        ],
    });
    create(&plane, &pod("web", spec)).await;
    pass(20).await;
    let pod = until(&plane, "web", "it is ready", |pod| condition(pod, "Ready")["status"] == "True").await;
    let init = &pod["status"]["initContainerStatuses"];
    let ended = |index: usize| &init[index]["state"]["terminated"];
    assert_eq!(ended(0)["reason"], "Completed");
    assert!(time(&ended(2)["startedAt"]) >= time(&ended(0)["finishedAt"]));
    assert!(time(&ended(2)["finishedAt"]).duration_since(time(&ended(0)["startedAt"])).as_secs() >= 20);
    assert!(init[1]["state"]["running"].is_object());
    assert_eq!(condition(&pod, "Initialized")["status"], "True");
}

#[tokio::test]
async fn an_init_container_that_fails_keeps_the_others_from_starting() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let fails = json!({"windlass.dev/init-exit-code": "3"});
    let init = json!([{"name": "one", "image": "a"}]);
    create(&plane, &pod("never", json!({"annotations": fails, "initContainers": init, "restartPolicy": "Never"})))
        .await;
    create(&plane, &pod("again", json!({"annotations": fails, "initContainers": init}))).await;
    let failed = until(&plane, "never", "it has failed", |pod| pod["status"]["phase"] == "Failed").await;
    assert_eq!(failed["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    assert_eq!(failed["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    pass(10).await;
    let again = until(&plane, "again", "it backs off", |pod| {
        pod["status"]["initContainerStatuses"][0]["restartCount"].as_i64() > Some(1)
    });
    assert_eq!(again.await["status"]["phase"], "Pending");
}

#[tokio::test]
async fn restarts_have_a_growing_backoff() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let annotations = json!({"windlass.dev/run-for": "2s", "windlass.dev/exit-code": "1"});
    create(&plane, &pod("web", json!({"annotations": annotations}))).await;
    pass(40).await;
    let pod = until(&plane, "web", "it backs off", |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        status["restartCount"] == 3 && status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    })
    .await;
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    let message = status["state"]["waiting"]["message"].as_str().unwrap();
    assert!(message.starts_with("back-off 40s restarting failed container=main pod=web_"), "{message}");
    assert_eq!(pod["status"]["phase"], "Running");
    // Four runs of two seconds, and backoffs of 0, 10 and 20.
    let passed =
        time(&status["lastState"]["terminated"]["finishedAt"]).duration_since(time(&pod["status"]["startTime"]));
    assert!((38..44).contains(&passed.as_secs()), "{passed:?}");
}

#[tokio::test]
async fn pods_that_are_not_restarted_succeed_or_fail() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    for (name, policy, code, phase) in
        [("good", "Never", "0", "Succeeded"), ("fine", "OnFailure", "0", "Succeeded"), ("bad", "Never", "7", "Failed")]
    {
        let annotations = json!({"windlass.dev/run-for": "5s", "windlass.dev/exit-code": code});
        create(&plane, &pod(name, json!({"annotations": annotations, "restartPolicy": policy}))).await;
        pass(5).await;
        let ended = until(&plane, name, "it has ended", |pod| pod["status"]["phase"] == phase).await;
        let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(state["exitCode"].to_string(), code);
        assert_eq!(condition(&ended, "Ready")["status"], "False");
    }
}

#[tokio::test]
async fn a_pod_fails_at_its_active_deadline() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    create(&plane, &pod("web", json!({"activeDeadlineSeconds": 60}))).await;
    pass(60).await;
    let ended = until(&plane, "web", "it has failed", |pod| pod["status"]["phase"] == "Failed").await;
    assert_eq!(ended["status"]["reason"], "DeadlineExceeded");
}

#[tokio::test]
async fn a_readiness_gate_keeps_a_pod_from_being_ready() {
    let plane = TestPlane::builder().nodes(1).await;
    create(&plane, &pod("web", json!({"readinessGates": [{"conditionType": "example.com/lb"}]}))).await;
    let pod =
        until(&plane, "web", "its containers are ready", |pod| condition(pod, "ContainersReady")["status"] == "True")
            .await;
    assert_eq!(condition(&pod, "Ready")["reason"], "ReadinessGatesNotReady");
    let gate = json!({"status": {"conditions": [{"type": "example.com/lb", "status": "True"}]}});
    let params = kube::api::PatchParams::default();
    plane.api::<Pod>().patch_status("web", &params, &kube::api::Patch::Strategic(gate)).await.unwrap();
    until(&plane, "web", "it is ready", |pod| condition(pod, "Ready")["status"] == "True").await;
}

#[tokio::test]
async fn a_pod_with_a_finalizer_terminates_before_it_is_removed() {
    let plane = TestPlane::builder().nodes(1).await;
    let pods = plane.api::<Pod>();
    create(&plane, &pod("web", json!({"finalizers": ["example.com/hold"]}))).await;
    until(&plane, "web", "it is ready", |pod| condition(pod, "Ready")["status"] == "True").await;
    pods.delete("web", &DeleteParams::default()).await.unwrap();
    until(&plane, "web", "it has ended", |pod| {
        pod["status"]["phase"] == "Failed" && pod["metadata"]["deletionGracePeriodSeconds"] == 0
    })
    .await;
    let patch = json!({"metadata": {"finalizers": null}});
    pods.patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    eventually("it is deleted", async || pods.get_opt("web").await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_pod_may_take_its_grace_period_to_stop_and_no_longer() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let pods = plane.api::<Pod>();
    let spec = json!({"annotations": {"windlass.dev/stop-delay": "5m"}, "terminationGracePeriodSeconds": 4});
    create(&plane, &pod("web", spec)).await;
    until(&plane, "web", "it is ready", |pod| condition(pod, "Ready")["status"] == "True").await;
    let before = windlass_clock::now();
    pods.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("it is deleted", async || pods.get_opt("web").await.unwrap().is_none().then_some(())).await;
    let took = windlass_clock::now().duration_since(before);
    assert!((3..6).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test]
async fn a_pod_can_be_held_and_released() {
    let plane = TestPlane::builder().nodes(1).await;
    create(&plane, &pod("web", json!({"annotations": {"windlass.dev/waiting": "ImagePullBackOff"}}))).await;
    until(&plane, "web", "it waits", |pod| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    })
    .await;
    let patch = json!({"metadata": {"annotations": null}});
    plane.api::<Pod>().patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    until(&plane, "web", "it is ready", |pod| condition(pod, "Ready")["status"] == "True").await;
}

#[tokio::test]
async fn a_changed_image_restarts_the_container() {
    let plane = TestPlane::builder().nodes(1).await;
    create(&plane, &pod("web", json!({}))).await;
    until(&plane, "web", "it is ready", |pod| condition(pod, "Ready")["status"] == "True").await;
    let patch = json!({"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}});
    let params = kube::api::PatchParams::default();
    plane.api::<Pod>().patch("web", &params, &kube::api::Patch::Strategic(patch)).await.unwrap();
    let pod = until(&plane, "web", "it runs the image", |pod| {
        pod["status"]["containerStatuses"][0]["image"] == "nginx:2" && condition(pod, "Ready")["status"] == "True"
    })
    .await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(pod["status"]["observedGeneration"], pod["metadata"]["generation"]);
}

#[tokio::test]
async fn pods_in_their_final_stage_are_not_written_again() {
    let plane = TestPlane::builder().nodes(2).virtual_time().await;
    for number in 0..20 {
        create(&plane, &pod(&format!("web-{number}"), json!({}))).await;
    }
    let pods = plane.api::<Pod>();
    let versions = async || {
        let list = pods.list(&ListParams::default()).await.unwrap();
        let ready = list.items.iter().all(is_ready);
        ready.then(|| list.items.iter().map(|pod| pod.metadata.resource_version.clone()).collect::<Vec<_>>())
    };
    let before = eventually("all are ready", versions).await;
    assert_eq!(before.len(), 20);
    pass(400).await;
    assert_eq!(versions().await, Some(before));
}

#[tokio::test]
async fn custom_stages_replace_the_default_ones() {
    let stages = "
apiVersion: windlass.dev/v1alpha1
kind: Stage
metadata: {name: pod-start}
spec:
  selector:
    matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]
  next:
    status: {phase: Failed, reason: Evicted, message: 'no room on $(nodeName)'}
---
apiVersion: windlass.dev/v1alpha1
kind: Stage
metadata: {name: node-trouble}
spec:
  resourceRef: {kind: Node}
  selector: {matchLabels: {trouble: 'yes'}}
  next:
    conditions: [{type: KernelDeadlock, status: 'True', reason: Stuck}]
";
    let stages = Stages::default().with(&Stages::parse(stages).unwrap());
    let plane = TestPlane::builder()
        .node_options(NodeOptions { count: 1, stages: Some(stages), ..NodeOptions::default() })
        .await;
    create(&plane, &pod("web", json!({}))).await;
    let failed = until(&plane, "web", "it has failed", |pod| pod["status"]["phase"] == "Failed").await;
    assert_eq!(failed["status"]["message"], "no room on node-1");
    let nodes: Api<Node> = Api::all(plane.client());
    let patch = json!({"metadata": {"labels": {"trouble": "yes"}}});
    nodes.patch("node-1", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    eventually("it is in backoff", async || {
        let status = nodes.get("node-1").await.unwrap().status?;
        status.conditions?.iter().any(|one| one.type_ == "KernelDeadlock").then_some(())
    })
    .await;
}

/// Waits until a pod has ended, and returns its phase and the exit codes of its containers.
async fn ended(plane: &TestPlane, name: &str) -> (String, Vec<i32>) {
    let pods = plane.api::<Pod>();
    let status = eventually("the pod has ended", async || {
        let status = pods.get(name).await.unwrap().status?;
        matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")).then_some(status)
    })
    .await;
    let codes = status.container_statuses.unwrap_or_default().into_iter();
    let codes = codes.map(|container| container.state.unwrap().terminated.map_or(-1, |ended| ended.exit_code));
    (status.phase.unwrap(), codes.collect())
}

#[tokio::test]
async fn pods_end_as_their_commands_do() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    let container = |name: &str, command: &[&str]| json!({"name": name, "image": "busybox", "command": command});
    let begun = windlass_clock::now();
    let both = json!([container("a", &["sleep", "30"]), container("b", &["sh", "-c", "sleep 5; exit 3"])]);
    create(&plane, &pod("both", json!({"restartPolicy": "Never", "containers": both}))).await;
    assert_eq!(ended(&plane, "both").await, ("Failed".to_owned(), vec![0, 3]));
    assert!(windlass_clock::now().duration_since(begun).as_secs() >= 30);

    let test = json!({"restartPolicy": "Never", "containers": [container("wget", &["wget", "web:80"])]});
    create(&plane, &pod("test", test)).await;
    assert_eq!(ended(&plane, "test").await, ("Succeeded".to_owned(), vec![0]));

    let hook = json!({"restartPolicy": "Never", "annotations": {"helm.sh/hook": "test"}});
    create(&plane, &pod("hook", hook)).await;
    assert_eq!(ended(&plane, "hook").await, ("Succeeded".to_owned(), vec![0]));

    let init = json!([container("one", &["true"]), container("two", &["sh", "-c", "sleep 2; exit 4"])]);
    create(&plane, &pod("init", json!({"restartPolicy": "Never", "initContainers": init}))).await;
    assert_eq!(ended(&plane, "init").await.0, "Failed");

    create(&plane, &pod("crashing", json!({"containers": [container("c", &["sh", "-c", "exit 1"])]}))).await;
    let pods = plane.api::<Pod>();
    let waiting = eventually("it backs off", async || {
        let status = pods.get("crashing").await.unwrap().status?.container_statuses?.pop()?;
        status.state?.waiting.filter(|_| status.restart_count >= 2)
    })
    .await;
    assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
}
