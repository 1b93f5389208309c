//! The operator with real processes.

use std::{fs, path::Path};

use kube::api::{DeleteParams, Patch, PatchParams};
use pod2_operator::{
    api::pod2::{Phase, Pod2, Pod2Status, State},
    controller::pod2::FINALIZER,
    operator::operator,
};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

/// A Pod2 whose containers are scripts.
fn pod(policy: &str, scripts: &[&str]) -> Pod2 {
    let containers: Vec<Value> = scripts
        .iter()
        .enumerate()
        .map(|(number, script)| json!({"name": format!("c{number}"), "command": ["sh", "-c", script]}))
        .collect();
    let spec = json!({"containers": containers, "restartPolicy": policy, "terminationGracePeriodSeconds": 1});
    Pod2::new("job", serde_json::from_value(spec).unwrap())
}

async fn plane() -> TestPlane {
    TestPlane::builder().with_crd::<Pod2>().await
}

fn status(pod: &Pod2) -> Pod2Status {
    pod.status.clone().unwrap_or_default()
}

async fn reaches(plane: &TestPlane, phase: Phase) -> Pod2Status {
    status(&plane.expect::<Pod2>("job").to("reach the phase", |pod| status(pod).phase == phase).await)
}

/// Returns the process IDs of a Pod2, once all of its processes run.
async fn processes(plane: &TestPlane) -> Vec<u32> {
    plane.expect::<Pod2>("job").condition("Ready").await;
    status(&plane.expect::<Pod2>("job").exists().await).containers.iter().map(|one| one.pid.unwrap()).collect()
}

/// A process that has exited remains until its parent has reaped it.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[tokio::test]
async fn processes_run_and_their_exit_codes_are_reported() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(pod("Never", &["exit 0", "exit 3"])).await;
    let ended = reaches(&plane, Phase::Failed).await;
    let codes: Vec<_> = ended.containers.iter().map(|container| container.exit_code).collect();
    assert_eq!(codes, [Some(0), Some(3)]);
    assert!(ended.containers.iter().all(|container| container.state == State::Terminated));
    assert_eq!((ended.restarts, ended.observed_generation), (0, Some(1)));
    plane.expect::<Pod2>("job").event("Failed").await;
}

#[tokio::test]
async fn containers_have_their_own_environment_and_working_directory() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    let folder = tempfile::tempdir().unwrap();
    let mut one = pod("Never", &["echo \"$GREETING\" > said"]);
    one.spec.containers[0].env = serde_json::from_value(json!([{"name": "GREETING", "value": "hello"}])).unwrap();
    one.spec.containers[0].working_dir = Some(folder.path().display().to_string());
    plane.create(one).await;
    reaches(&plane, Phase::Succeeded).await;
    assert_eq!(fs::read_to_string(folder.path().join("said")).unwrap(), "hello\n");
}

#[tokio::test]
async fn a_failing_process_is_restarted_until_it_succeeds() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    let folder = tempfile::tempdir().unwrap();
    let tried = folder.path().join("tried").display().to_string();
    plane.create(pod("OnFailure", &[&format!("test -e {tried} || {{ touch {tried}; exit 1; }}")])).await;
    let ended = reaches(&plane, Phase::Succeeded).await;
    assert_eq!((ended.restarts, ended.containers[0].exit_code), (1, Some(0)));
}

#[tokio::test]
async fn a_killed_process_is_restarted() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    plane.create(pod("Always", &["exec sleep 600"])).await;
    let before = processes(&plane).await[0];
    let pid = rustix::process::Pid::from_raw(before.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let is_another = |pod: &Pod2| status(pod).containers[0].pid.is_some_and(|pid| pid != before);
    let after = status(&plane.expect::<Pod2>("job").to("have another process", is_another).await);
    assert_eq!((after.restarts, after.containers[0].exit_code), (1, Some(137)));
}

#[tokio::test]
async fn a_deleted_pod2_is_kept_until_its_processes_have_ended() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    // The second ignores SIGTERM, and is killed a second later.
    plane.create(pod("Always", &["exec sleep 600", "trap '' TERM; while :; do sleep 1; done"])).await;
    let pids = processes(&plane).await;
    let finalizers = plane.expect::<Pod2>("job").exists().await.metadata.finalizers;
    assert_eq!(finalizers.as_deref(), Some(&[FINALIZER.to_owned()][..]));
    plane.api::<Pod2>().delete("job", &DeleteParams::default()).await.unwrap();
    plane.expect::<Pod2>("job").gone().await;
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "no process may outlive its Pod2");
}

#[tokio::test]
async fn processes_end_with_the_operator_and_restart_with_the_next() {
    let plane = plane().await;
    let first = plane.run(operator());
    plane.create(pod("Always", &["exec sleep 600"])).await;
    let before = processes(&plane).await[0];
    first.stop().await.unwrap();
    eventually("the process has ended", async || (!is_alive(before)).then_some(())).await;
    let _second = plane.run(operator());
    let is_another = |pod: &Pod2| status(pod).containers[0].pid.is_some_and(|pid| pid != before);
    let after = status(&plane.expect::<Pod2>("job").to("have another process", is_another).await);
    assert_eq!((after.restarts, after.containers[0].reason.as_str()), (1, ""));
    assert!(is_alive(after.containers[0].pid.unwrap()));
}

#[tokio::test]
async fn failures_to_start_and_invalid_specs_are_reported() {
    let plane = plane().await;
    let _operator = plane.run(operator());
    let missing = json!({"restartPolicy": "Never", "containers": [{"name": "main", "command": ["/no/such/program"]}]});
    plane.create(Pod2::new("job", serde_json::from_value(missing).unwrap())).await;
    let failed = reaches(&plane, Phase::Failed).await;
    assert_eq!(failed.containers[0].exit_code, Some(127));
    assert!(failed.containers[0].reason.starts_with("failed to start"), "{}", failed.containers[0].reason);
    assert!(!Path::new("/no/such/program").exists());

    let other = Patch::Merge(json!({"spec": {"containers": [{"name": "other", "command": ["true"]}]}}));
    let rejected = plane.api::<Pod2>().patch("job", &PatchParams::default(), &other).await.unwrap_err();
    let kube::Error::Api(rejected) = rejected else { panic!("the server must reject it") };
    assert_eq!(rejected.code, 422, "{}", rejected.message);
    let twice = json!({"containers": [{"name": "a", "command": ["true"]}, {"name": "a", "command": ["true"]}]});
    let twice = Pod2::new("twice", serde_json::from_value(twice).unwrap());
    let rejected = plane.api::<Pod2>().create(&Default::default(), &twice).await.unwrap_err();
    let kube::Error::Api(rejected) = rejected else { panic!("the server must reject it") };
    assert!(rejected.message.contains("Duplicate value"), "{}", rejected.message);
}
