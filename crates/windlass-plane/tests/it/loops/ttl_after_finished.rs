//! Deletion of finished jobs, in virtual time.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

#[tokio::test]
async fn a_finished_job_is_deleted_after_its_ttl() {
    let plane = TestPlane::builder().virtual_time().controllers("ttl-after-finished-controller".parse().unwrap()).await;
    let jobs = plane.api::<Job>();
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": "once"},
        "spec": {"ttlSecondsAfterFinished": 100, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}},
    }))
    .unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let now = windlass_clock::now_in_seconds().to_string();
    let finished = json!({"status": {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
        {"type": "Complete", "status": "True", "lastTransitionTime": now},
    ]}});
    jobs.patch_status("once", &PatchParams::default(), &Patch::Merge(finished)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(95)).await;
    // A longer TTL postpones the deletion.
    let more = json!({"spec": {"ttlSecondsAfterFinished": 200}});
    jobs.patch("once", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(95)).await;
    assert!(jobs.get("once").await.unwrap().metadata.deletion_timestamp.is_none());
    eventually("the job is deleted", async || match jobs.get_opt("once").await.unwrap() {
        None => Some(()),
        Some(job) => job.metadata.deletion_timestamp.map(|_| ()),
    })
    .await;
}
