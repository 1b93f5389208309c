//! Jobs, whose pods the tests end themselves.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_plane::{LoopOptions, Loops};
use windlass_testing::{TestCluster, TestPlane, eventually};

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// A job and its pods.
struct Bench {
    jobs: Api<Job>,
    pods: Api<Pod>,
}

impl Bench {
    fn new(cluster: &TestCluster) -> Self {
        Self { jobs: cluster.api(), pods: cluster.api() }
    }

    async fn create(&self, spec: Value) {
        self.create_as("work", spec).await;
    }

    async fn create_as(&self, name: &str, spec: Value) {
        let mut full = json!({"completions": 1, "parallelism": 1, "manualSelector": true,
            "selector": {"matchLabels": {"job": name}},
            "template": {"metadata": {"labels": {"job": name}}, "spec": {"restartPolicy": "Never",
                "initContainers": [{"name": "first", "image": "i"}], "containers": [{"name": "main", "image": "i"}]}}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let job = serde_json::from_value(json!({"metadata": {"name": name}, "spec": full})).unwrap();
        self.jobs.create(&PostParams::default(), &job).await.unwrap();
    }

    async fn change(&self, patch: Value) {
        self.jobs.patch("work", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until the status has these fields. Returns the status.
    async fn status(&self, expected: Value) -> Value {
        let mut last = Value::Null;
        let what = format!("the status of the job has {expected}");
        let waiting = eventually(&what, async || {
            let job = self.jobs.get("work").await.unwrap();
            last = serde_json::to_value(job.status.unwrap_or_default()).unwrap();
            let fits = expected.as_object().unwrap().iter().all(|(name, value)| last[name] == *value);
            fits.then(|| last.clone())
        });
        waiting.await
    }

    /// The conditions of a finished job: types, reasons and messages.
    async fn ended(&self) -> Vec<(String, String, String)> {
        eventually("the job has ended", async || {
            let job = self.jobs.get("work").await.unwrap();
            let conditions = job.status?.conditions?;
            let ended = conditions.iter().any(|one| matches!(one.type_.as_str(), "Complete" | "Failed"));
            let told = conditions.into_iter().filter(|one| one.status == "True");
            ended.then(|| told.map(|one| (one.type_, one.reason.unwrap(), one.message.unwrap())).collect())
        })
        .await
    }

    /// Waits for this number of active pods that are not terminating. Returns them by name.
    async fn running(&self, count: usize) -> Vec<Pod> {
        eventually(&format!("{count} pods run"), async || {
            let mut pods = self.pods.list(&ListParams::default()).await.unwrap().items;
            pods.retain(|pod| phase(pod) == "Pending" && pod.metadata.deletion_timestamp.is_none());
            pods.sort_by_key(index);
            (pods.len() == count).then_some(pods)
        })
        .await
    }

    async fn end(&self, pod: &Pod, phase: &str, code: i32) {
        let now = windlass_clock::now_in_seconds().to_string();
        let status = json!({"status": {"phase": phase, "containerStatuses": [{"name": "main", "image": "i", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": code, "finishedAt": now}}}]}});
        let name = pod.metadata.name.as_deref().unwrap();
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    async fn succeed(&self, pod: &Pod) {
        self.end(pod, "Succeeded", 0).await;
    }

    async fn fail(&self, pod: &Pod) {
        self.end(pod, "Failed", 1).await;
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn index(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get("batch.kubernetes.io/job-completion-index")?.parse().ok()
}

fn words(conditions: &[(String, String, String)]) -> Vec<(&str, &str)> {
    conditions.iter().map(|(type_, reason, _)| (type_.as_str(), reason.as_str())).collect()
}

#[tokio::test]
async fn a_job_is_complete_when_its_pods_have_succeeded() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"completions": 3, "parallelism": 2})).await;
    bench.status(json!({"active": 2, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}})).await;
    let pods = bench.running(2).await;
    assert!(pods[0].metadata.finalizers.as_ref().unwrap().contains(&FINALIZER.to_owned()));
    assert!(pods[0].metadata.name.as_ref().unwrap().starts_with("work-"));
    bench.succeed(&pods[0]).await;
    bench.status(json!({"active": 2, "succeeded": 1})).await;
    for pod in bench.running(2).await {
        bench.succeed(&pod).await;
    }
    let told = bench.ended().await;
    assert_eq!(words(&told), [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]);
    assert_eq!(told[1].2, "Reached expected number of succeeded pods");
    let status = bench.status(json!({"succeeded": 3, "active": null, "uncountedTerminatedPods": {}})).await;
    assert!(status["completionTime"].is_string());
    for pod in bench.pods.list(&ListParams::default()).await.unwrap() {
        assert_eq!(pod.metadata.finalizers, None);
    }
}

#[tokio::test]
async fn without_completions_no_pod_starts_after_the_first_success() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"completions": null, "parallelism": 2})).await;
    let pods = bench.running(2).await;
    bench.succeed(&pods[0]).await;
    bench.status(json!({"active": 1, "succeeded": 1})).await;
    bench.succeed(&pods[1]).await;
    assert_eq!(words(&bench.ended().await)[1].0, "Complete");
    bench.status(json!({"succeeded": 2})).await;
}

#[tokio::test]
async fn failed_pods_are_replaced_with_growing_backoff_up_to_the_limit() {
    let plane = TestPlane::builder().virtual_time().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"backoffLimit": 2})).await;
    let pods = bench.running(1).await;
    bench.fail(&pods[0]).await;
    bench.status(json!({"failed": 1, "active": null})).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    bench.running(0).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let pods = bench.running(1).await;
    bench.fail(&pods[0]).await;
    bench.status(json!({"failed": 2, "active": null})).await;
    tokio::time::sleep(Duration::from_secs(18)).await;
    bench.running(0).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let pods = bench.running(1).await;
    bench.fail(&pods[0]).await;
    let told = bench.ended().await;
    assert_eq!(words(&told), [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]);
    assert_eq!(told[1].2, "Job has reached the specified backoff limit");
    let status = bench.status(json!({"failed": 3})).await;
    assert_eq!(status["completionTime"], Value::Null);
}

#[tokio::test]
async fn a_failed_job_deletes_its_running_pods() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"backoffLimit": 0, "parallelism": 3, "completions": 3})).await;
    let pods = bench.running(3).await;
    bench.fail(&pods[1]).await;
    assert_eq!(words(&bench.ended().await)[1], ("Failed", "BackoffLimitExceeded"));
    bench.status(json!({"failed": 3, "active": null, "terminating": 0})).await;
    bench.running(0).await;
}

#[tokio::test]
async fn each_index_has_a_pod_with_its_index() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"completionMode": "Indexed", "completions": 4, "parallelism": 3})).await;
    let pods = bench.running(3).await;
    for (expected, pod) in pods.iter().enumerate() {
        let (metadata, spec) = (&pod.metadata, pod.spec.as_ref().unwrap());
        assert_eq!(index(pod), i32::try_from(expected).ok());
        let label = &metadata.labels.as_ref().unwrap()["batch.kubernetes.io/job-completion-index"];
        assert_eq!(*label, expected.to_string());
        assert_eq!(spec.hostname, Some(format!("work-{expected}")));
        assert!(metadata.name.as_ref().unwrap().starts_with(&format!("work-{expected}-")));
        let field = "metadata.labels['batch.kubernetes.io/job-completion-index']";
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let variable = &container.env.as_ref().unwrap()[0];
            let from = variable.value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
            assert_eq!((variable.name.as_str(), from.field_path.as_str()), ("JOB_COMPLETION_INDEX", field));
        }
    }
    bench.succeed(&pods[0]).await;
    bench.succeed(&pods[2]).await;
    bench.status(json!({"succeeded": 2, "completedIndexes": "0,2", "active": 2})).await;
    for pod in bench.running(2).await {
        bench.succeed(&pod).await;
    }
    assert_eq!(words(&bench.ended().await)[1].0, "Complete");
    bench.status(json!({"succeeded": 4, "completedIndexes": "0-3"})).await;
}

#[tokio::test]
async fn an_index_fails_on_its_own() {
    let plane = TestPlane::builder().virtual_time().await;
    let bench = Bench::new(&plane);
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1});
    bench.create(spec).await;
    let pods = bench.running(2).await;
    bench.fail(&pods[0]).await;
    // A failed pod is kept until the next one has inherited its failure count.
    let counts =
        |pod: &Pod| pod.metadata.annotations.as_ref().unwrap()["batch.kubernetes.io/job-index-failure-count"].clone();
    assert_eq!(counts(&pods[0]), "0");
    bench.running(1).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let pods = bench.running(2).await;
    assert_eq!((index(&pods[0]), counts(&pods[0])), (Some(0), "1".to_owned()));
    bench.fail(&pods[0]).await;
    bench.status(json!({"failedIndexes": "0", "failed": 2})).await;
    bench.succeed(&pods[1]).await;
    let told = bench.ended().await;
    assert_eq!(words(&told), [("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")]);
    bench.status(json!({"failedIndexes": "0", "completedIndexes": "1", "succeeded": 1})).await;
}

#[tokio::test]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"suspend": true})).await;
    let status = bench.status(json!({"ready": 0, "terminating": 0})).await;
    assert_eq!((&status["startTime"], &status["conditions"][0]["reason"]), (&Value::Null, &json!("JobSuspended")));
    bench.running(0).await;
    bench.change(json!({"spec": {"suspend": false}})).await;
    bench.running(1).await;
    let status = bench.status(json!({"active": 1})).await;
    assert_eq!(status["conditions"][0]["status"], "False");
    assert_eq!(status["conditions"][0]["reason"], "JobResumed");
    assert!(status["startTime"].is_string());
    bench.change(json!({"spec": {"suspend": true}})).await;
    bench.running(0).await;
    let status = bench.status(json!({"active": null, "terminating": 0})).await;
    assert_eq!((&status["startTime"], &status["failed"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_job_fails_at_its_active_deadline() {
    let plane = TestPlane::builder().virtual_time().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"activeDeadlineSeconds": 3600})).await;
    bench.running(1).await;
    tokio::time::sleep(Duration::from_secs(3590)).await;
    bench.running(1).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let told = bench.ended().await;
    assert_eq!(words(&told)[1], ("Failed", "DeadlineExceeded"));
    assert_eq!(told[1].2, "Job was active longer than specified deadline");
}

#[tokio::test]
async fn an_exit_code_can_fail_the_job_or_be_ignored() {
    let plane = TestPlane::builder().virtual_time().await;
    let bench = Bench::new(&plane);
    bench
        .create(json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}},
        ]}}))
        .await;
    let pods = bench.running(1).await;
    bench.end(&pods[0], "Failed", 3).await;
    bench.running(0).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let pods = bench.running(1).await;
    bench.end(&pods[0], "Failed", 42).await;
    let told = bench.ended().await;
    assert_eq!(words(&told)[1], ("Failed", "PodFailurePolicy"));
    let (namespace, name) = (plane.namespace(), pods[0].metadata.name.as_deref().unwrap());
    let expected =
        format!("Container main for pod {namespace}/{name} failed with exit code 42 matching FailJob rule at index 0");
    assert_eq!(told[1].2, expected);
    bench.status(json!({"failed": 1})).await;
}

#[tokio::test]
async fn the_success_policy_ends_the_job_early() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench
        .create(json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4,
            "successPolicy": {"rules": [{"succeededIndexes": "2"}]}}))
        .await;
    let pods = bench.running(4).await;
    bench.succeed(&pods[2]).await;
    let told = bench.ended().await;
    assert_eq!(words(&told), [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]);
    assert_eq!(told[1].2, "Matched rules at index 0");
    bench.status(json!({"succeeded": 1, "failed": null, "completedIndexes": "2"})).await;
}

#[tokio::test]
async fn surplus_pods_are_deleted_when_parallelism_shrinks() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"completions": 5, "parallelism": 4})).await;
    bench.running(4).await;
    bench.change(json!({"spec": {"parallelism": 1}})).await;
    bench.running(1).await;
    bench.status(json!({"active": 1, "failed": null, "terminating": 0})).await;
}

#[tokio::test]
async fn pods_that_ended_while_the_loop_was_stopped_are_counted_once() {
    let cluster = TestCluster::start().await;
    let server = cluster.server().unwrap();
    let bench = Bench::new(&cluster);
    let loops = Loops::start(server, &LoopOptions::default());
    bench.create(json!({"completions": 4, "parallelism": 2})).await;
    bench.status(json!({"active": 2})).await;
    let pods = bench.running(2).await;
    bench.succeed(&pods[0]).await;
    bench.status(json!({"succeeded": 1, "uncountedTerminatedPods": {}})).await;
    bench.running(2).await;
    loops.stop().await;
    bench.succeed(&pods[1]).await;
    // As if the loop had stopped between listing the pod and removing its finalizer.
    let uid = pods[1].metadata.uid.clone().unwrap();
    let listed = json!({"status": {"uncountedTerminatedPods": {"succeeded": [uid]}}});
    bench.jobs.patch_status("work", &PatchParams::default(), &Patch::Merge(listed)).await.unwrap();
    let _loops = Loops::start(server, &LoopOptions::default());
    bench.status(json!({"succeeded": 2, "active": 2, "uncountedTerminatedPods": {}})).await;
    for pod in bench.running(2).await {
        bench.succeed(&pod).await;
    }
    bench.ended().await;
    bench.status(json!({"succeeded": 4})).await;
}

#[tokio::test]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench.create(json!({})).await;
    let pods = bench.running(1).await;
    bench.jobs.delete("work", &DeleteParams::background()).await.unwrap();
    let name = pods[0].metadata.name.as_deref().unwrap();
    eventually("the finalizer is removed", async || match bench.pods.get_opt(name).await.unwrap() {
        Some(pod) => pod.metadata.finalizers.is_none().then_some(()),
        None => Some(()),
    })
    .await;
}

#[tokio::test]
async fn a_job_of_another_controller_is_left_alone() {
    let plane = TestPlane::builder().await;
    let bench = Bench::new(&plane);
    bench.create(json!({"managedBy": "example.com/theirs"})).await;
    bench.create_as("ours", json!({})).await;
    let pods = bench.running(1).await;
    assert!(pods[0].metadata.name.as_ref().unwrap().starts_with("ours-"));
    assert_eq!(bench.jobs.get("work").await.unwrap().status.unwrap_or_default(), Default::default());
}
